/**
 * Long computations in steps: a generator that yields where it may be interrupted. Who drives it decides whether it runs
 * at once or in turns of the event loop, so that timers, sockets and health checks are served meanwhile. The result is
 * the same.
 */

/** A computation that may be interrupted at each `yield`. */
export type Steps<Value> = Generator<undefined, Value, undefined>;

/** How long a computation runs before the event loop has its turn. One step may take longer. */
const sliceMs = 5;

/** Runs to the end without interruption. */
export function atOnce<Value>(steps: Steps<Value>): Value {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/**
 * Runs in slices of about 5 ms, each in a turn of the event loop of its own. The first begins at once.
 *
 * @param nowMs a monotonic clock; absent: the process's.
 * @throws what the computation throws.
 */
export async function inTurns<Value>(steps: Steps<Value>, nowMs = () => performance.now()): Promise<Value> {
  for (let untilMs = nowMs() + sliceMs; ; ) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (nowMs() < untilMs) continue;
    await new Promise<void>((resolve) => setImmediate(resolve));
    untilMs = nowMs() + sliceMs;
  }
}
