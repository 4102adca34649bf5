/** An expensive answer for all who ask, within a share of the thread. */
import type { Clock } from "./clock.ts";

/** Times that the thread has for other work after making an answer, for the time that it took. */
const restFactor = 3;
/** Nobody waits longer for others' answers. */
const maxRestMs = 1_000;

/**
 * Makes one answer at a time. Everybody who asks before the next one begins gets that one, so that each answer is younger
 * than its question. After one that took t ms the next begins 3 t ms later, at most a second: however many ask, they get a
 * quarter of the thread.
 *
 * @returns as `make`; rejects as it does, for all who wait.
 */
export function paced<T>(make: () => Promise<T>, clock: Clock): () => Promise<T> {
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
