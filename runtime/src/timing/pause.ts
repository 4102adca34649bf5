/** Waits for a time that a signal can cut short. */
import type { Clock } from "./clock.ts";

/** Resolves after `ms` milliseconds, or as soon as `signal` aborts. */
export function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const end = (): void => {
      timer.cancel();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = clock.setTimer(ms, end);
    signal.addEventListener("abort", end);
  });
}
