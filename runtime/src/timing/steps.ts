/**
 * Long computations in steps: a generator that yields where it may be interrupted. The caller decides whether it runs
 * at once or in slices, between which the event loop serves timers, sockets and health checks. The result is the same.
 */

import { systemClock } from "./clock.ts";

/** A computation that may be interrupted at each `yield`. */
export type Steps<Value> = Generator<undefined, Value, undefined>;

/** Options of `runInSlices`. */
export interface SliceOptions {
  /** The length of a slice in milliseconds; one step may take longer. 0: one step per slice. Default: 5. */
  readonly sliceMs?: number;
  /** A monotonic clock. Default: the system's. */
  readonly nowMs?: () => number;
}

/** Runs a computation to its end without interruption. */
export function runToEnd<Value>(steps: Steps<Value>): Value {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Maps each item, one step per item. */
export function* mapInSteps<Item, Value>(items: Iterable<Item>, map: (item: Item) => Value): Steps<Value[]> {
  const values: Value[] = [];
  for (const item of items) {
    values.push(map(item));
    yield;
  }
  return values;
}

/**
 * Runs a computation in slices of time, each in its own turn of the event loop. The first slice runs at once.
 *
 * @throws what the computation throws.
 */
export async function runInSlices<Value>(steps: Steps<Value>, options: SliceOptions = {}): Promise<Value> {
  const { sliceMs = 5, nowMs = () => systemClock.monotonicMs() } = options;
  for (let untilMs = nowMs() + sliceMs; ; ) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (nowMs() < untilMs) continue;
    await new Promise<void>((resolve) => setImmediate(resolve));
    untilMs = nowMs() + sliceMs;
  }
}
