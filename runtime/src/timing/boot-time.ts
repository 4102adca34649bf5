/**
 * Carries times of the monotonic clock, which begins from zero with each start of the machine, over the end of a
 * process.
 */
import { readFileSync } from "node:fs";
import type { Clock } from "./clock.ts";

/** One moment on both clocks. */
export interface Moment {
  /** Identifies the start of the machine; empty if it is not known. */
  readonly boot: string;
  /** Milliseconds since 1970. */
  readonly wallMs: number;
  /** Milliseconds of the monotonic clock. */
  readonly monotonicMs: number;
}

/** Returns the identity of the current start of the machine, a UUID (proc(5), `random/boot_id`); empty without one. */
export function readBoot(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch {
    return "";
  }
}

/** Returns the current moment. */
export function momentOf(boot: string, clock: Pick<Clock, "nowMs" | "monotonicMs">): Moment {
  return { boot, wallMs: clock.nowMs(), monotonicMs: clock.monotonicMs() };
}

/**
 * Returns the milliseconds to add to monotonic times around the moment `saved`, so that they are as long ago on the
 * clock of `now`. The wall clock decides after another start of the machine. If it was set back, no time has passed, so
 * that nothing seems to lie in the future.
 */
export function monotonicShift(saved: Moment, now: Moment): number {
  if (saved.boot !== "" && saved.boot === now.boot && saved.monotonicMs <= now.monotonicMs) return 0;
  const elapsedMs = Math.max(0, now.wallMs - saved.wallMs);
  return now.monotonicMs - elapsedMs - saved.monotonicMs;
}
