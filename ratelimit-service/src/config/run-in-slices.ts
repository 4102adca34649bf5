/**
 * Runs work on large configurations in slices, so that calls are decided in between. The work is a generator that
 * yields after each small piece.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";

/** Time for which a slice occupies the event loop, in ms. */
const sliceMs = 10;
/** Number of steps between two reads of the clock. */
const piecesPerClockCheck = 32;

/** Runs the work to its end, one slice in each turn of the event loop. Rejects with the errors of the work. */
export async function runInSlices<T>(work: Generator<undefined, T>, clock: Clock): Promise<T> {
  for (;;) {
    const startMs = clock.monotonicMs();
    do {
      for (let pieces = 0; pieces < piecesPerClockCheck; pieces++) {
        const { done, value } = work.next();
        if (done === true) return value;
      }
    } while (clock.monotonicMs() - startMs < sliceMs);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Runs the work to its end synchronously. */
export function runAtOnce<T>(work: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}
