/** Counters in this process: without Redis, not shared with other replicas, and lost on a restart. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { CounterStep, CounterStore, LiveCounter } from "../model/counter-store.ts";
import type { CounterTable } from "./counter-table.ts";

export class MemoryStore implements CounterStore {
  readonly #table: CounterTable;
  readonly #clock: Clock;

  /** @param clock wall time, for the end of windows */
  constructor(table: CounterTable, clock: Clock) {
    this.#table = table;
    this.#clock = clock;
  }

  apply(steps: readonly CounterStep[]): readonly number[] {
    const nowSeconds = Math.floor(this.#clock.nowMs() / 1_000);
    const values: number[] = [];
    for (const { key, hits, windowEndSeconds } of steps) {
      values.push(this.#table.apply(key, hits, windowEndSeconds, nowSeconds));
    }
    return values;
  }

  isHealthy(): boolean {
    return true;
  }

  liveCounters(): Iterable<LiveCounter> {
    return this.#table.entries(Math.floor(this.#clock.nowMs() / 1_000));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
