/**
 * The windows of limits: fixed, as in envoyproxy/ratelimit, of the calendar, and sliding. A configuration has them as
 * plain data, which may be posted to worker threads.
 */
import { type CalendarUnit, CalendarWindows } from "@gatewayproxy/runtime/calendar";
import { countedSubWindows, subWindowStartMs } from "@gatewayproxy/runtime/sliding-window";

/** Windows of a fixed length, aligned to the Unix epoch. */
export interface FixedWindow {
  readonly kind: "fixed";
  /** At least 1. */
  readonly windowSeconds: number;
}

/** Days, ISO weeks and months of a time zone. */
export interface CalendarWindow {
  readonly kind: "calendar";
  readonly unit: CalendarUnit;
  /** Units of a window, at least 1, counted from 1970. */
  readonly every: number;
  /** A name of the IANA time zone database. */
  readonly timeZone: string;
}

/** The span of `windowSeconds` that ends now, wherever it begins. */
export interface SlidingWindow {
  readonly kind: "sliding";
  /** At least 1. */
  readonly windowSeconds: number;
}

/** The window of a limit. */
export type LimitWindow = FixedWindow | CalendarWindow | SlidingWindow;

/** A window that begins and ends at fixed times, in seconds since the epoch. */
export interface AlignedSpan {
  readonly startSeconds: number;
  /** The first second after the window. */
  readonly endSeconds: number;
}

/**
 * The calendars of one thread. They keep the last window, so that a call computes no dates. There are as many as the
 * configuration names, and reloads drop none before there are `maxCalendars`.
 */
const calendars = new Map<string, CalendarWindows>();
const maxCalendars = 1_000;

/**
 * Returns the window that contains a time.
 * @param nowSeconds whole seconds since the epoch
 */
export function spanAt(window: FixedWindow | CalendarWindow, nowSeconds: number): AlignedSpan {
  if (window.kind === "fixed") {
    const startSeconds = nowSeconds - (nowSeconds % window.windowSeconds);
    return { startSeconds, endSeconds: startSeconds + window.windowSeconds };
  }
  const { startMs, endMs } = calendarOf(window).at(nowSeconds * 1_000);
  return { startSeconds: startMs / 1_000, endSeconds: endMs / 1_000 };
}

function calendarOf(window: CalendarWindow): CalendarWindows {
  const name = windowName(window);
  const existing = calendars.get(name);
  if (existing !== undefined) return existing;
  if (calendars.size >= maxCalendars) calendars.clear();
  const calendar = new CalendarWindows(window.unit, window.every, window.timeZone);
  calendars.set(name, calendar);
  return calendar;
}

/**
 * Returns the name of a window in the keys of counters, such as `fixed-60`, `calendar-3-Months-Europe/Berlin` or
 * `sliding-3600`. Limits with the same name count the same hits.
 */
export function windowName(window: LimitWindow): string {
  if (window.kind !== "calendar") return `${window.kind}-${window.windowSeconds}`;
  return `calendar-${window.every}-${window.unit}-${window.timeZone}`;
}

/** Returns the time in ms at which a sliding window no longer counts the hits of a sub-window. */
export function subWindowLeavesMs(windowSeconds: number, subWindow: number): number {
  return Math.ceil(subWindowStartMs(subWindow + countedSubWindows, windowSeconds * 1_000));
}

/** Returns the seconds after which a sliding window certainly no longer counts a hit of now. */
export function keepSecondsOf(windowSeconds: number): number {
  return Math.ceil(subWindowLeavesMs(windowSeconds, 0) / 1_000) + 1;
}
