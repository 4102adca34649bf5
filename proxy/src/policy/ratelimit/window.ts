/**
 * The arithmetic of one counter: what is restored when, the decision, and the figures in headers. No other module
 * computes units; tables and threads only store and carry the numbers.
 *
 * A counter starts with a full budget. Its windows follow one another in one of three ways:
 *
 * - Fixed. The first unit counted with a full budget opens a window. Each window's end adds `refill` units, at most up
 *   to the capacity. While the budget is not full, the next window follows without a gap. With a full budget no window
 *   is open, and the next one starts with the next counted unit. So 10/min with burst 5 allows 15 at once at 0:00, 10
 *   at 1:00, and, without requests in between, 15 again from 2:00 on.
 * - Sliding. Every unit is restored one window after it was counted. Units are counted by sub-windows of a 60th of the
 *   window, and a sub-window is restored when its last moment is one window ago. So no span of one window has more than
 *   the capacity.
 * - Calendar. Windows begin and end with days, weeks or months of a time zone, and their end restores all units.
 *
 * Requests in progress have no window (Concurrent): a unit is restored when its request ends.
 *
 * Times are milliseconds of one monotonic clock; fractions are allowed. Calendar windows have the times of the wall
 * clock.
 */
import { CalendarWindows } from "@gatewayproxy/runtime/calendar";
import type { Clock } from "@gatewayproxy/runtime/clock";
import {
  countedSubWindows,
  placeOf,
  subWindowAt,
  subWindows,
  subWindowStartMs,
} from "@gatewayproxy/runtime/sliding-window";
import { isChargedLater, type LocalLimit, unitMs } from "../../ir/limit.ts";

/** The constants of a counter. */
export interface Budget {
  /** Units of a full budget; the value of `x-ratelimit-limit`. */
  readonly capacity: number;
  readonly windows: Windows;
}

/** How the windows of a counter follow one another. */
export type Windows =
  | {
      readonly kind: "Fixed";
      readonly windowMs: number;
      /** Units that a window's end restores; Infinity restores all of them. */
      readonly refill: number;
    }
  | { readonly kind: "Sliding"; readonly windowMs: number }
  | { readonly kind: "Calendar"; readonly calendar: CalendarTime }
  | { readonly kind: "Concurrent" };

/** The variables of a counter. A new counter has 0 in all of them. */
export interface Window {
  /**
   * Units counted and not yet restored or refunded; above the capacity if a charge exceeded it. 0: no window is open.
   */
  used: number;
  /**
   * The start of the open window, on the wall clock for Calendar. For Sliding the start of the newest sub-window.
   * Without meaning for Concurrent, and while no window is open.
   */
  startMs: number;
  /** The length of an open Calendar window. */
  lengthMs: number;
  /** Changes when an operator resets the counter, so that no unit counted before is refunded after it. 0..65535. */
  epoch: number;
  /** Units by sub-window, for Sliding; sub-window n is at `placeOf(n)`. Otherwise of any content. */
  readonly subWindowUnits: Uint32Array;
}

/** A sub-window counts no more than this, which exceeds the capacity of every entry. */
const maxSubWindowUnits = 0xffff_ffff;

/** The figures of one counter in response headers. */
export interface LimitState {
  readonly limit: number;
  /** Never negative. */
  readonly remaining: number;
  /** Seconds until units are restored, rounded up; a whole window if none are counted. At least 1. */
  readonly resetSeconds: number;
}

/** The clocks that relate monotonic times to the calendar. */
export type WallClock = Pick<Clock, "nowMs" | "monotonicMs">;

/** Returns the time of the wall clock at a monotonic time. */
export function wallMsAt(clock: WallClock, nowMs: number): number {
  return nowMs + clock.nowMs() - clock.monotonicMs();
}

/** The calendar windows of an entry. */
export class CalendarTime {
  readonly #windows: CalendarWindows;
  readonly #clock: WallClock;

  constructor(windows: CalendarWindows, clock: WallClock) {
    this.#windows = windows;
    this.#clock = clock;
  }

  /** As `wallMsAt`. */
  wallMs(nowMs: number): number {
    return wallMsAt(this.#clock, nowMs);
  }

  /** Returns the window at a time of the wall clock. */
  windowAt(wallMs: number): { readonly startMs: number; readonly endMs: number } {
    return this.#windows.at(wallMs);
  }
}

/**
 * Returns the budget of an entry. A window's end restores a budget of tokens or spend completely, however far the last
 * charge exceeded it.
 */
export function budgetOf(limit: LocalLimit, clock: WallClock): Budget {
  return { capacity: limit.amount + limit.burst, windows: windowsOf(limit, clock) };
}

function windowsOf(limit: LocalLimit, clock: WallClock): Windows {
  const { unit, unitCount = 1, window } = limit;
  if (unit === undefined) return { kind: "Concurrent" };
  if (window?.kind === "Calendar") {
    // The parser accepts these units alone.
    const calendarUnit = unit === "Weeks" || unit === "Months" ? unit : "Days";
    const windows = new CalendarWindows(calendarUnit, unitCount, window.timeZone);
    return { kind: "Calendar", calendar: new CalendarTime(windows, clock) };
  }
  const windowMs = unitMs[unit] * unitCount;
  if (window?.kind === "Sliding") return { kind: "Sliding", windowMs };
  // Requests that saw another amount may have counted in the same counter, so no part of it is this amount's.
  const sharesWindow = limit.amountFrom !== undefined || limit.bucket !== undefined || limit.restoresAll === true;
  // Fewer replicas had larger shares, which one share would not restore. A burst is restored in part anyway.
  const hadOtherShares = limit.replicas !== undefined && limit.burst === 0;
  return {
    kind: "Fixed",
    windowMs,
    refill: isChargedLater(limit.counts) || sharesWindow || hadOtherShares ? Infinity : limit.amount,
  };
}

/** Restores what is to be restored by `nowMs`. A time before the window's start ends no window. */
export function settle(window: Window, windows: Windows, nowMs: number): void {
  if (window.used === 0) return;
  switch (windows.kind) {
    case "Fixed":
      settleFixed(window, windows.refill, windows.windowMs, nowMs);
      return;
    case "Sliding":
      settleSliding(window, windows.windowMs, nowMs);
      return;
    case "Calendar":
      settleCalendar(window, windows.calendar, nowMs);
      return;
    case "Concurrent":
    // The end of a request restores its unit.
  }
}

/** As `settle`, for fixed windows. */
export function settleFixed(window: Window, refill: number, windowMs: number, nowMs: number): void {
  const elapsedMs = nowMs - window.startMs;
  if (elapsedMs < windowMs) return;
  const ended = Math.floor(elapsedMs / windowMs);
  window.used = Math.max(0, window.used - ended * refill);
  window.startMs += ended * windowMs;
}

/** As `settle`, for sliding windows. */
export function settleSliding(window: Window, windowMs: number, nowMs: number): void {
  const newest = subWindowFrom(window.startMs, windowMs);
  const current = subWindowAt(nowMs, windowMs);
  // The sub-windows from after the newest one until the current one take the places of those that are over.
  for (let subWindow = newest + 1; subWindow <= current && subWindow <= newest + countedSubWindows; subWindow++) {
    const place = placeOf(subWindow);
    window.used -= window.subWindowUnits[place] ?? 0;
    window.subWindowUnits[place] = 0;
  }
  if (current > newest) window.startMs = subWindowStartMs(current, windowMs);
}

/**
 * A clock that is set back does not open a window again: the window that is open lasts until its end. A clock that was
 * wrong by more than a window is no reason to wait for an end in the far future; the units then count in the current
 * window.
 */
function settleCalendar(window: Window, calendar: CalendarTime, nowMs: number): void {
  const wallMs = calendar.wallMs(nowMs);
  if (wallMs >= window.startMs + window.lengthMs) window.used = 0;
  else if (window.startMs - wallMs > window.lengthMs) openCalendar(window, calendar, wallMs);
}

function openCalendar(window: Window, calendar: CalendarTime, wallMs: number): void {
  const { startMs, endMs } = calendar.windowAt(wallMs);
  window.startMs = startMs;
  window.lengthMs = endMs - startMs;
}

/** Returns whether at least `units` remain. The window must be settled. */
export function hasBudget(window: Window, budget: Budget, units: number): boolean {
  return window.used + units <= budget.capacity;
}

/**
 * Counts `units`, a whole number of at least 1, and opens a window if none is open. The window must be settled. The sum
 * stops at the largest safe integer, so that no charge loses units to rounding.
 */
export function count(window: Window, windows: Windows, units: number, nowMs: number): void {
  if (windows.kind === "Sliding") {
    countSliding(window, windows.windowMs, units, nowMs);
    return;
  }
  if (window.used === 0) {
    if (windows.kind === "Fixed") window.startMs = nowMs;
    else if (windows.kind === "Calendar") openCalendar(window, windows.calendar, windows.calendar.wallMs(nowMs));
  }
  window.used = Math.min(Number.MAX_SAFE_INTEGER, window.used + units);
}

function countSliding(window: Window, windowMs: number, units: number, nowMs: number): void {
  // Threads read the clock before they take the lock, so the newest sub-window may be later than `nowMs`.
  const current = subWindowAt(nowMs, windowMs);
  const subWindow = window.used === 0 ? current : Math.max(subWindowFrom(window.startMs, windowMs), current);
  if (window.used === 0) window.subWindowUnits.fill(0);
  const place = placeOf(subWindow);
  const before = window.subWindowUnits[place] ?? 0;
  const after = Math.min(maxSubWindowUnits, before + units);
  window.subWindowUnits[place] = after;
  window.used += after - before;
  window.startMs = subWindowStartMs(subWindow, windowMs);
}

/** Restores the units of a request in progress, which has ended. Only for Concurrent. */
export function release(window: Window, units: number): void {
  window.used = Math.max(0, window.used - units);
}

/**
 * Refunds `units` that were counted in the window, or the sub-window of a sliding one, that began at `startMs`. Returns
 * false and does nothing if they are restored already.
 */
export function refund(window: Window, windows: Windows, units: number, startMs: number): boolean {
  if (window.used === 0) return false;
  if (windows.kind === "Sliding") return refundSliding(window, windows.windowMs, units, startMs);
  if (window.startMs !== startMs) return false;
  window.used = Math.max(0, window.used - units);
  return true;
}

function refundSliding(window: Window, windowMs: number, units: number, startMs: number): boolean {
  const subWindow = subWindowFrom(startMs, windowMs);
  if (subWindowFrom(window.startMs, windowMs) - subWindow >= countedSubWindows) return false;
  const place = placeOf(subWindow);
  const before = window.subWindowUnits[place] ?? 0;
  const refunded = Math.min(before, units);
  window.subWindowUnits[place] = before - refunded;
  window.used -= refunded;
  return refunded > 0;
}

/** Returns the remaining units for headers and operators. */
export function remaining(window: Window, budget: Budget): number {
  return Math.max(0, budget.capacity - window.used);
}

/**
 * Returns the milliseconds until units are restored; a whole window if none are counted. The window must be settled.
 * The end of requests in progress is not known: a second is short for most, and keeps clients from asking at once.
 *
 * @param missing Units that must be restored: more than one sub-window may have to end for them.
 */
export function msToReset(window: Window, windows: Windows, nowMs: number, missing = 1): number {
  switch (windows.kind) {
    case "Fixed": {
      const { windowMs } = windows;
      // Threads read the clock before they take the lock, so a start may lie a little after `nowMs`.
      return window.used === 0 ? windowMs : Math.min(windowMs, windowMs - (nowMs - window.startMs));
    }
    case "Sliding":
      return window.used === 0 ? windows.windowMs : msToRestored(window, windows.windowMs, nowMs, missing);
    case "Calendar": {
      const wallMs = windows.calendar.wallMs(nowMs);
      return window.used === 0
        ? windows.calendar.windowAt(wallMs).endMs - wallMs
        : window.startMs + window.lengthMs - wallMs;
    }
    case "Concurrent":
      return 1_000;
  }
}

/** Returns the time until the oldest sub-windows that have `missing` units together are restored, or all. */
function msToRestored(window: Window, windowMs: number, nowMs: number, missing: number): number {
  const newest = subWindowFrom(window.startMs, windowMs);
  let restored = 0;
  let last = newest;
  for (let subWindow = newest - subWindows; subWindow <= newest && restored < missing; subWindow++) {
    const units = window.subWindowUnits[placeOf(subWindow)] ?? 0;
    restored += units;
    if (units > 0) last = subWindow;
  }
  return subWindowStartMs(last + countedSubWindows, windowMs) - nowMs;
}

/** Returns the monotonic time at which the window began; now if none is open. */
export function startOf(window: Window, windows: Windows, nowMs: number): number {
  switch (windows.kind) {
    case "Fixed":
      return window.used === 0 ? nowMs : window.startMs;
    case "Sliding":
      return nowMs - windows.windowMs;
    case "Calendar": {
      const wallMs = windows.calendar.wallMs(nowMs);
      const startMs = window.used === 0 ? windows.calendar.windowAt(wallMs).startMs : window.startMs;
      return nowMs - (wallMs - startMs);
    }
    case "Concurrent":
      return nowMs;
  }
}

/**
 * Returns the length of the window in whole seconds: of that in which `nowMs` is for Calendar, undefined for
 * Concurrent.
 */
export function windowSeconds(window: Window, windows: Windows, nowMs: number): number | undefined {
  if (windows.kind === "Concurrent") return undefined;
  if (windows.kind !== "Calendar") return windows.windowMs / 1_000;
  if (window.used > 0) return wholeSeconds(window.lengthMs);
  const { startMs, endMs } = windows.calendar.windowAt(windows.calendar.wallMs(nowMs));
  return wholeSeconds(endMs - startMs);
}

/** Rounds a time until a reset up to whole seconds, at least 1. */
export function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}

/** Returns the number of the sub-window that begins at `startMs`, which `subWindowStartMs` returned. */
function subWindowFrom(startMs: number, windowMs: number): number {
  return Math.round((startMs * subWindows) / windowMs);
}
