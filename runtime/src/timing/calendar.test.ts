import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CalendarUnit, calendarUnits, CalendarWindows, isTimeZone } from "./calendar.ts";

const at = (text: string): number => Date.parse(text);

function windowText(unit: CalendarUnit, every: number, timeZone: string, now: string): string {
  const { startMs, endMs } = new CalendarWindows(unit, every, timeZone).at(at(now));
  const text = (ms: number): string => new Date(ms).toISOString().replace(/:00\.000Z$/, "Z");
  return `${text(startMs)} ${text(endMs)}`;
}

describe("a calendar window", () => {
  test.each<[string, CalendarUnit, number, string, string, string]>([
    ["of a day", "Days", 1, "UTC", "2026-11-27T12:00Z", "2026-11-27T00:00Z 2026-11-28T00:00Z"],
    ["of a day in a zone", "Days", 1, "Europe/Berlin", "2026-11-27T23:30Z", "2026-11-27T23:00Z 2026-11-28T23:00Z"],
    ["of 23 hours", "Days", 1, "Europe/Berlin", "2026-03-29T12:00Z", "2026-03-28T23:00Z 2026-03-29T22:00Z"],
    ["of 25 hours", "Days", 1, "Europe/Berlin", "2026-10-25T12:00Z", "2026-10-24T22:00Z 2026-10-25T23:00Z"],
    ["of an ISO week", "Weeks", 1, "UTC", "2026-11-29T23:59Z", "2026-11-23T00:00Z 2026-11-30T00:00Z"],
    ["of a month", "Months", 1, "UTC", "2028-02-29T12:00Z", "2028-02-01T00:00Z 2028-03-01T00:00Z"],
    ["of a quarter", "Months", 3, "UTC", "2026-11-27T12:00Z", "2026-10-01T00:00Z 2027-01-01T00:00Z"],
    ["of a year", "Months", 12, "UTC", "2026-11-27T12:00Z", "2026-01-01T00:00Z 2027-01-01T00:00Z"],
    ["before 1970", "Weeks", 1, "UTC", "1969-12-29T00:00Z", "1969-12-29T00:00Z 1970-01-05T00:00Z"],
    [
      "after midnight that clocks leave out",
      "Days",
      1,
      "Asia/Beirut",
      "2026-03-29T12:00Z",
      "2026-03-28T22:00Z 2026-03-29T21:00Z",
    ],
    [
      "before a day that a zone leaves out",
      "Days",
      1,
      "Pacific/Apia",
      "2011-12-30T09:00Z",
      "2011-12-29T10:00Z 2011-12-30T10:00Z",
    ],
  ])("%s", (_, unit, every, timeZone, now, expected) => {
    expect(windowText(unit, every, timeZone, now)).toBe(expected);
  });

  test("windows of every zone follow one another, and begin when its clocks show so", () => {
    const zones = Intl.supportedValuesOf("timeZone");
    const moment = fc.record({
      zone: fc.constantFrom(...zones),
      unit: fc.constantFrom(...calendarUnits),
      every: fc.constantFrom(1, 1, 2, 3, 7, 12),
      fromMs: fc.integer({ min: at("1971-01-01"), max: at("2037-01-01") }),
      offsetMs: fc.integer({ min: -10_800_000, max: 10_800_000 }),
    });
    fc.assert(
      fc.property(moment, ({ zone, unit, every, fromMs, offsetMs }) => {
        // Most errors are near a change of the clocks.
        const change = Temporal.Instant.fromEpochMilliseconds(fromMs)
          .toZonedDateTimeISO(zone)
          .getTimeZoneTransition("next");
        const nowMs = (change?.epochMilliseconds ?? fromMs) + offsetMs;
        const windows = new CalendarWindows(unit, every, zone);
        const window = windows.at(nowMs);
        expect(window.startMs).toBeLessThanOrEqual(nowMs);
        expect(window.endMs).toBeGreaterThan(nowMs);
        expect(new CalendarWindows(unit, every, zone).at(window.endMs).startMs).toBe(window.endMs);
        expect(new CalendarWindows(unit, every, zone).at(window.startMs)).toEqual(window);
        expect(new CalendarWindows(unit, every, zone).at(window.endMs - 1)).toEqual(window);
      }),
      { numRuns: 3_000 },
    );
  });

  test("the last window is kept, and left in both directions of time", () => {
    const days = new CalendarWindows("Days", 1, "UTC");
    const first = days.at(at("2026-11-27T12:00Z"));
    expect(days.at(at("2026-11-27T23:59Z"))).toBe(first);
    expect(days.at(at("2026-11-28T00:00Z")).startMs).toBe(first.endMs);
    expect(days.at(at("2026-11-26T00:00Z")).endMs).toBe(first.startMs);
  });
});

test.each([
  ["UTC", true],
  ["Europe/Berlin", true],
  ["America/Argentina/Buenos_Aires", true],
  ["Europe/Berlim", false],
  ["US/Eastern", true],
  ["europe/berlin", false],
  ["Local", false],
  ["+01:00", false],
  ["", false],
  ["UTC\0", false],
])("%j is a time zone: %s", (name, expected) => {
  expect(isTimeZone(name)).toBe(expected);
});
