/** When to try again: later each time, and not at the same moment as everybody else. */
import type { Clock } from "./clock.ts";

const firstMs = 200;
const mostMs = 10_000;

/** Doubles from 200 ms to 10 s; of each wait the second half is random. */
export class Backoff {
  readonly #random: () => number;
  /** In a row. */
  failures = 0;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** How long to wait after one more failure. */
  next(): number {
    const waitMs = Math.min(mostMs, firstMs * 2 ** Math.min(this.failures, 16));
    this.failures++;
    return waitMs * (0.5 + this.#random() / 2);
  }

  reset(): void {
    this.failures = 0;
  }
}

/** Resolves after a time, or at once when `signal` is aborted. */
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
