/**
 * Work on large configurations in slices, so that calls are answered meanwhile. The work is a generator that yields often,
 * between pieces of some microseconds.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";

/** How long a slice holds the event loop, in ms. */
const sliceMs = 10;
/** Pieces between two looks at the clock. */
const piecesPerLook = 32;

/** Runs the work to its end, a slice in each turn of the event loop. Rejects with what the work throws. */
export async function inTurns<T>(work: Generator<undefined, T>, clock: Clock): Promise<T> {
  for (;;) {
    const startMs = clock.monotonicMs();
    do {
      for (let pieces = 0; pieces < piecesPerLook; pieces++) {
        const { done, value } = work.next();
        if (done === true) return value;
      }
    } while (clock.monotonicMs() - startMs < sliceMs);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Runs the work to its end at once. */
export function atOnce<T>(work: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}
