/**
 * The windows of limits. Windows are fixed and aligned to the Unix epoch in seconds, as in envoyproxy/ratelimit: a week
 * begins on Thursday 00:00 UTC, a month has 30 days and a year 365.
 */
import type { Unit } from "./rate-limit.ts";

/** Length of one window in seconds. */
export const unitSeconds: Readonly<Record<Unit, number>> = {
  SECOND: 1,
  MINUTE: 60,
  HOUR: 3_600,
  DAY: 86_400,
  WEEK: 604_800,
  MONTH: 2_592_000,
  YEAR: 31_536_000,
};

/** The accepted names, for error messages. */
export const unitNames = "second, minute, hour, day, week, month, year";

/**
 * Longest window in seconds, ten thousand years: the maximum of a google.protobuf.Duration, which carries the time to
 * the reset in the response.
 */
export const maxWindowSeconds = 315_576_000_000;

/** Returns the seconds of one window. They may exceed `maxWindowSeconds`, which the caller rejects. */
export function windowSeconds(unit: Unit, unitMultiplier: number): number {
  return unitSeconds[unit] * unitMultiplier;
}

/** Parses a unit's name in any case; returns `undefined` for anything else, including `unknown`. */
export function parseUnit(text: string): Unit | undefined {
  const name = text.toUpperCase();
  return isUnit(name) ? name : undefined;
}

/** Whether a text is a unit's name in capitals. */
export function isUnit(name: string): name is Unit {
  return Object.hasOwn(unitSeconds, name);
}
