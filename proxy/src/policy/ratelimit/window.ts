/**
 * The arithmetic of one counter: what is given back when, what is admitted, what a header says. Nothing else decides
 * about units; the tables and threads around it only carry its two numbers.
 *
 * A counter is full until something is counted. The first unit counted while it is full opens a window of one unit of
 * time; each window's end gives back `givenBack`, at most to the capacity, and while the counter is not full the next
 * window follows at once. Full again, no window is open, and the next one starts whenever it is next needed. So
 * 10/min with burst 5 admits 15 at once at 0:00, 10 at 1:00, and, left alone from then, 15 again from 2:00 on.
 *
 * Times are milliseconds of one monotonic clock, fractions allowed.
 */
import { type LocalLimit, unitMs } from "../../ir/limit.ts";

/** The fixed figures of a counter. */
export interface Budget {
  /** Units at hand when full; what `x-ratelimit-limit` shows. */
  readonly capacity: number;
  /** Units that a window's end restores; Infinity restores all of them. */
  readonly givenBack: number;
  readonly windowMs: number;
}

/** The changing figures of a counter. A fresh one is zero in both. */
export interface Window {
  /** Units counted and not given back; above the capacity where a charge overshot. Zero: no window is open. */
  used: number;
  /** When the open window began; means nothing while none is open. */
  startMs: number;
}

/** What the headers of a response say of one counter. */
export interface LimitState {
  readonly limit: number;
  /** Never negative. */
  readonly remaining: number;
  /** To the end of the window, rounded up; a whole window when none is open. At least 1. */
  readonly resetSeconds: number;
}

/**
 * The budget of an entry. Tokens: the whole budget comes back at a window's end, however far the last charge overshot.
 */
export function budgetOf(limit: LocalLimit): Budget {
  const windowMs = unitMs[limit.unit] * (limit.unitCount ?? 1);
  if (limit.counts === "tokens") return { capacity: limit.amount, givenBack: Infinity, windowMs };
  return { capacity: limit.amount + limit.burst, givenBack: limit.amount, windowMs };
}

/** Gives back what the windows that have ended by `nowMs` give back. A time before the window's start ends nothing. */
export function settle(window: Window, givenBack: number, windowMs: number, nowMs: number): void {
  if (window.used === 0) return;
  const elapsedMs = nowMs - window.startMs;
  if (elapsedMs < windowMs) return;
  const ended = Math.floor(elapsedMs / windowMs);
  window.used = Math.max(0, window.used - ended * givenBack);
  window.startMs += ended * windowMs;
}

/** Whether as much as `units` remains. The window is settled. */
export function hasBudget(window: Window, budget: Budget, units: number): boolean {
  return window.used + units <= budget.capacity;
}

/**
 * Counts `units`, a whole number of at least 1, and opens a window where none is. The window is settled. The sum stops
 * at the largest exact integer, so that no charge can make it lose units or turn into something else.
 */
export function count(window: Window, units: number, nowMs: number): void {
  if (window.used === 0) window.startMs = nowMs;
  window.used = Math.min(Number.MAX_SAFE_INTEGER, window.used + units);
}

/**
 * Takes back `units` that were counted in the window that began at `startMs`, and tells whether it did. In a later window
 * it does not: the end of their own window has given them back already, and twice would admit too many.
 */
export function uncount(window: Window, units: number, startMs: number): boolean {
  if (window.used === 0 || window.startMs !== startMs) return false;
  window.used = Math.max(0, window.used - units);
  return true;
}

/** Units left, as an operator or a client may see them. */
export function remaining(window: Window, budget: Budget): number {
  return Math.max(0, budget.capacity - window.used);
}

/** Seconds to the end of the open window, rounded up; a whole window when none is open. The window is settled. */
export function resetSeconds(window: Window, windowMs: number, nowMs: number): number {
  const leftMs = window.used === 0 ? windowMs : windowMs - (nowMs - window.startMs);
  // Threads read the clock before they take the lock, so a start may lie a little after `nowMs`.
  return Math.min(Math.ceil(leftMs / 1_000), windowMs / 1_000);
}
