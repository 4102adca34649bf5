/** Validates the window of a limit, and the list of a descriptor's limits. */
import { type CalendarUnit, isTimeZone } from "@gatewayproxy/runtime/calendar";
import { type LimitWindow, windowName } from "../model/limit-window.ts";
import type { Unit } from "../model/rate-limit.ts";
import { windowSeconds } from "../model/unit.ts";
import type { RateLimitSpec } from "./descriptor-spec.ts";

/** A problem of a window. */
export interface WindowProblem {
  readonly message: string;
  readonly hint: string;
}

/** Longest window of the calendar in seconds, a hundred years. */
const maxCalendarSeconds = 100 * 365 * 86_400;

/** Maximum number of limits of one descriptor, which bounds the work of a call. */
export const maxGroupLimits = 8;

/** The unit of the calendar, and how many of them a unit of the configuration has. */
const calendarUnits: Partial<Readonly<Record<Unit, readonly [unit: CalendarUnit, every: number]>>> = {
  DAY: ["Days", 1],
  WEEK: ["Weeks", 1],
  MONTH: ["Months", 1],
  YEAR: ["Months", 12],
};

/** Returns the window of a limit whose unit and multiplier are valid. */
export function readWindow(spec: RateLimitSpec, unit: Unit): LimitWindow | WindowProblem {
  const { calendar = false, timezone = "", window = "", unitMultiplier } = spec;
  if (window !== "" && window !== "fixed" && window !== "sliding") {
    const hint = "accepted: fixed, sliding; for windows of the calendar, calendar: true";
    return { message: `invalid rate limit window '${window}'`, hint };
  }
  if (calendar && window === "sliding") {
    return { message: "a rate limit with calendar: true cannot be sliding", hint: "accepted: one of them" };
  }
  if (!calendar && timezone !== "") {
    return { message: "timezone means nothing without calendar: true", hint: "accepted: both, or neither" };
  }
  const seconds = windowSeconds(unit, unitMultiplier);
  if (!calendar) return { kind: window === "sliding" ? "sliding" : "fixed", windowSeconds: seconds };
  const units = calendarUnits[unit];
  if (units === undefined) {
    const message = `invalid rate limit unit '${spec.unit}' with calendar: true`;
    return { message, hint: "accepted: day, week, month, year" };
  }
  if (seconds > maxCalendarSeconds) {
    const message = `invalid rate limit unit multiplier '${unitMultiplier}' with calendar: true`;
    return { message, hint: "accepted: windows of at most 100 years" };
  }
  if (timezone !== "" && !isTimeZone(timezone)) {
    const hint = "accepted: a name of the IANA time zone database, such as Europe/Berlin; absent: UTC";
    return { message: `invalid time zone '${timezone}'`, hint };
  }
  const [calendarUnit, unitsOfIt] = units;
  const timeZone = timezone === "" ? "UTC" : timezone;
  return { kind: "calendar", unit: calendarUnit, every: unitMultiplier * unitsOfIt, timeZone };
}

/** Returns the index of the first window that an earlier one equals; -1 if all are different. */
export function duplicateWindow(windows: readonly LimitWindow[]): number {
  const names = windows.map(windowName);
  return names.findIndex((name, i) => names.indexOf(name) < i);
}
