/**
 * Windows of the calendar: days, ISO weeks and months in a time zone. A window begins when the clocks of the zone show
 * its beginning, so one with a change of daylight saving time is longer or shorter than others.
 */

/** The units of calendar windows. */
export const calendarUnits = ["Days", "Weeks", "Months"] as const;
/** A unit of calendar windows. A week begins on Monday (ISO 8601). */
export type CalendarUnit = (typeof calendarUnits)[number];

/** The part of time from `startMs` until before `endMs`, in milliseconds since 1970. */
export interface CalendarWindow {
  readonly startMs: number;
  readonly endMs: number;
}

/** The windows of one calendar, which follow one another without gap or overlap. */
export class CalendarWindows {
  readonly #unit: CalendarUnit;
  readonly #every: number;
  readonly #timeZone: string;
  #last: CalendarWindow = { startMs: 0, endMs: 0 };

  /**
   * @param every Units of a window, at least 1. They are counted from 1970: three months are a quarter.
   * @param timeZone A name that `isTimeZone` accepts.
   */
  constructor(unit: CalendarUnit, every: number, timeZone: string) {
    this.#unit = unit;
    this.#every = every;
    this.#timeZone = timeZone;
  }

  /** Returns the window that contains `nowMs`, milliseconds since 1970. */
  at(nowMs: number): CalendarWindow {
    const { startMs, endMs } = this.#last;
    if (nowMs < startMs || nowMs >= endMs) this.#last = this.#windowAt(nowMs);
    return this.#last;
  }

  #windowAt(nowMs: number): CalendarWindow {
    const today = Temporal.Instant.fromEpochMilliseconds(Math.floor(nowMs))
      .toZonedDateTimeISO(this.#timeZone)
      .toPlainDate();
    let index = Math.floor(unitsUntil(today, this.#unit) / this.#every);
    let endMs = this.#startOf(index + 1);
    // Clocks that are set back over the end of a window show its last hour again. That belongs to the next window.
    for (; endMs <= nowMs; index += 1) endMs = this.#startOf(index + 2);
    return { startMs: this.#startOf(index), endMs };
  }

  /**
   * Returns the first moment of a window. Where the clocks leave out midnight, it is the moment at which they are set.
   */
  #startOf(index: number): number {
    const first = epochs[this.#unit].add({ [this.#unit.toLowerCase()]: index * this.#every });
    return first.toZonedDateTime(this.#timeZone).epochMilliseconds;
  }
}

const epoch = new Temporal.PlainDate(1970, 1, 1);

/** The day from which units are counted. The first Monday of 1970 is its fifth day. */
const epochs: Readonly<Record<CalendarUnit, Temporal.PlainDate>> = {
  Days: epoch,
  Weeks: epoch.with({ day: 5 }),
  Months: epoch,
};

/** Returns the whole units from their epoch to the start of `day`; negative before it. */
function unitsUntil(day: Temporal.PlainDate, unit: CalendarUnit): number {
  if (unit === "Months") return (day.year - epoch.year) * 12 + day.month - 1;
  const { days } = epochs[unit].until(day, { largestUnit: "days" });
  return unit === "Days" ? days : Math.floor(days / 7);
}

/**
 * Returns whether `name` is a name of the IANA time zone database in its own spelling, such as Europe/Berlin or UTC. An
 * offset such as +01:00 is none: it would not say what its author means when the clocks change.
 */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    return Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name).timeZoneId === name;
  } catch {
    return false;
  }
}
