/** Shares the result of an expensive computation among its callers and bounds its share of the thread's time. */
import type { Clock } from "./clock.ts";

/** The rest after a computation, as a multiple of the time that it took. */
const restFactor = 3;
/** The longest rest. */
const maxRestMs = 1_000;

/**
 * Runs `make` once at a time. All callers that wait for the next run share its result, so a result is never older than the
 * call. After a run of t ms the next one starts 3 t ms later, at most a second: however many call, they use a quarter of
 * the thread's time.
 *
 * @returns a function that resolves or rejects as `make` does, for all callers of that run.
 */
export function throttle<T>(make: () => Promise<T>, clock: Clock): () => Promise<T> {
  let next: Promise<T> | undefined;
  let last: Promise<unknown> = Promise.resolve();
  let startsAtMs = 0;

  async function makeNext(): Promise<T> {
    await last;
    const restMs = startsAtMs - clock.monotonicMs();
    if (restMs > 0) await new Promise<void>((resolve) => clock.setTimer(restMs, resolve));
    next = undefined;
    const startMs = clock.monotonicMs();
    try {
      return await make();
    } finally {
      const endMs = clock.monotonicMs();
      startsAtMs = endMs + Math.min(maxRestMs, (endMs - startMs) * restFactor);
    }
  }

  return () => {
    if (next === undefined) {
      next = makeNext();
      last = next.catch(() => undefined);
    }
    return next;
  };
}
