/**
 * The arithmetic of one counter: refills at the end of windows, the decision, and the figures in headers. No other
 * module computes units; tables and threads only store and carry the two numbers.
 *
 * A counter starts with a full budget. The first unit counted with a full budget opens a window. Each window's end adds
 * `refill` units, at most up to the capacity. While the budget is not full, the next window follows without a gap. With
 * a full budget no window is open, and the next one starts with the next counted unit. So 10/min with burst 5 allows 15
 * at once at 0:00, 10 at 1:00, and, without requests in between, 15 again from 2:00 on.
 *
 * Times are milliseconds of one monotonic clock; fractions are allowed.
 */
import { type LocalLimit, unitMs } from "../../ir/limit.ts";

/** The constants of a counter. */
export interface Budget {
  /** Units of a full budget; the value of `x-ratelimit-limit`. */
  readonly capacity: number;
  /** Units that a window's end restores; Infinity restores all of them. */
  readonly refill: number;
  readonly windowMs: number;
}

/** The variables of a counter. A new counter has 0 in both. */
export interface Window {
  /**
   * Units counted and not yet refilled or refunded; above the capacity if a charge exceeded it. 0: no window is open.
   */
  used: number;
  /** The start of the open window; without meaning while none is open. */
  startMs: number;
}

/** The figures of one counter in response headers. */
export interface LimitState {
  readonly limit: number;
  /** Never negative. */
  readonly remaining: number;
  /** Seconds to the end of the window, rounded up; a whole window if none is open. At least 1. */
  readonly resetSeconds: number;
}

/**
 * Returns the budget of an entry. A window's end restores a token budget completely, however far the last charge
 * exceeded it.
 */
export function budgetOf(limit: LocalLimit): Budget {
  const windowMs = unitMs[limit.unit] * (limit.unitCount ?? 1);
  // Requests that saw another amount may have counted in the same counter, so no part of it is this amount's.
  const sharesWindow = limit.amountFrom !== undefined || limit.bucket !== undefined;
  if (limit.counts === "tokens" || sharesWindow) return { capacity: limit.amount, refill: Infinity, windowMs };
  return { capacity: limit.amount + limit.burst, refill: limit.amount, windowMs };
}

/** Returns the same budget with another capacity, all of which the end of a window restores. */
export function budgetWith({ windowMs }: Budget, capacity: number): Budget {
  return { capacity, refill: Infinity, windowMs };
}

/** Refills what the windows that ended by `nowMs` restore. A time before the window's start ends no window. */
export function settle(window: Window, refill: number, windowMs: number, nowMs: number): void {
  if (window.used === 0) return;
  const elapsedMs = nowMs - window.startMs;
  if (elapsedMs < windowMs) return;
  const ended = Math.floor(elapsedMs / windowMs);
  window.used = Math.max(0, window.used - ended * refill);
  window.startMs += ended * windowMs;
}

/** Returns whether at least `units` remain. The window must be settled. */
export function hasBudget(window: Window, budget: Budget, units: number): boolean {
  return window.used + units <= budget.capacity;
}

/**
 * Counts `units`, a whole number of at least 1, and opens a window if none is open. The window must be settled. The sum
 * stops at the largest safe integer, so that no charge loses units to rounding.
 */
export function count(window: Window, units: number, nowMs: number): void {
  if (window.used === 0) window.startMs = nowMs;
  window.used = Math.min(Number.MAX_SAFE_INTEGER, window.used + units);
}

/**
 * Refunds `units` that were counted in the window that began at `startMs`. Returns false and does nothing in a later
 * window: the end of their own window has restored them already.
 */
export function refund(window: Window, units: number, startMs: number): boolean {
  if (window.used === 0 || window.startMs !== startMs) return false;
  window.used = Math.max(0, window.used - units);
  return true;
}

/** Returns the remaining units for headers and operators. */
export function remaining(window: Window, budget: Budget): number {
  return Math.max(0, budget.capacity - window.used);
}

/**
 * Returns the seconds to the end of the open window, rounded up; a whole window if none is open. The window must be
 * settled.
 */
export function resetSeconds(window: Window, windowMs: number, nowMs: number): number {
  const remainingMs = window.used === 0 ? windowMs : windowMs - (nowMs - window.startMs);
  // Threads read the clock before they take the lock, so a start may lie a little after `nowMs`.
  return Math.min(Math.ceil(remainingMs / 1_000), windowMs / 1_000);
}
