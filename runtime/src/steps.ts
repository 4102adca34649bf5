/**
 * Long computations in steps: a generator that yields where it may be interrupted. Who drives it decides whether it runs
 * at once or in turns of the event loop, so that timers, sockets and health checks are served meanwhile. The result is
 * the same.
 */

import { systemClock } from "./clock.ts";

/** A computation that may be interrupted at each `yield`. */
export type Steps<Value> = Generator<undefined, Value, undefined>;

export interface TurnOptions {
  /** How long it runs before the event loop has its turn; one step may take longer. 0: each step is a turn. Default: 5. */
  readonly sliceMs?: number;
  /** A monotonic clock; default: the system's. */
  readonly nowMs?: () => number;
}

/** Runs to the end without interruption. */
export function atOnce<Value>(steps: Steps<Value>): Value {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** Each item mapped, a step for each. */
export function* mapInSteps<Item, Value>(items: Iterable<Item>, map: (item: Item) => Value): Steps<Value[]> {
  const values: Value[] = [];
  for (const item of items) {
    values.push(map(item));
    yield;
  }
  return values;
}

/**
 * Runs in slices of time, each in a turn of the event loop of its own. The first begins at once.
 *
 * @throws what the computation throws.
 */
export async function inTurns<Value>(steps: Steps<Value>, options: TurnOptions = {}): Promise<Value> {
  const { sliceMs = 5, nowMs = () => systemClock.monotonicMs() } = options;
  for (let untilMs = nowMs() + sliceMs; ; ) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (nowMs() < untilMs) continue;
    await new Promise<void>((resolve) => setImmediate(resolve));
    untilMs = nowMs() + sliceMs;
  }
}
