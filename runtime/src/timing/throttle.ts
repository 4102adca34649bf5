/** Shares the result of an expensive computation among its callers and bounds its share of the thread's time. */
import type { Clock } from "./clock.ts";

/** The pause after a computation, as a multiple of the time that it took. */
const pauseFactor = 3;
/** The longest pause, in milliseconds. */
const maxPauseMs = 1_000;

/**
 * Runs `compute` once at a time. All callers that wait for the next run share its result, so a result is never older
 * than the call. After a run of t ms the next one starts 3 t ms later, at most a second: with any number of callers, it
 * uses at most a quarter of the thread's time.
 *
 * @returns a function that resolves or rejects as `compute` does, for all callers of that run.
 */
export function throttle<T>(compute: () => Promise<T>, clock: Clock): () => Promise<T> {
  let next: Promise<T> | undefined;
  let last: Promise<unknown> = Promise.resolve();
  let startsAtMs = 0;

  async function computeNext(): Promise<T> {
    await last;
    const pauseMs = startsAtMs - clock.monotonicMs();
    if (pauseMs > 0) await new Promise<void>((resolve) => clock.setTimer(pauseMs, resolve));
    next = undefined;
    const startMs = clock.monotonicMs();
    try {
      return await compute();
    } finally {
      const endMs = clock.monotonicMs();
      startsAtMs = endMs + Math.min(maxPauseMs, (endMs - startMs) * pauseFactor);
    }
  }

  return () => {
    if (next === undefined) {
      next = computeNext();
      last = next.catch(() => undefined);
    }
    return next;
  };
}
