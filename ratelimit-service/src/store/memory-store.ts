/** Counters in this process: without Redis, not shared with other replicas, and lost on a restart. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import {
  type CounterChange,
  type CounterStep,
  type CounterStore,
  type GroupCount,
  type GroupCounter,
  type GroupCounts,
  type GroupStep,
  isCounted,
  type LiveCounter,
  maxCount,
} from "../model/counter-store.ts";
import type { CounterTable, LockedCounter } from "./counter-table.ts";
import type { MemoryTables } from "./memory-tables.ts";
import type { LockedWindow, SlidingTable } from "./sliding-table.ts";

export class MemoryStore implements CounterStore {
  readonly #table: CounterTable;
  readonly #sliding: SlidingTable;
  readonly #clock: Clock;

  /** @param clock wall time, for the end of windows */
  constructor({ counters, sliding }: MemoryTables, clock: Clock) {
    this.#table = counters;
    this.#sliding = sliding;
    this.#clock = clock;
  }

  apply(steps: readonly CounterStep[]): readonly number[] {
    const nowSeconds = this.#nowSeconds();
    const values: number[] = [];
    for (const { key, hits, windowEndSeconds, keepSeconds } of steps) {
      const keptUntil = keepSeconds === undefined ? windowEndSeconds : nowSeconds + keepSeconds;
      values.push(this.#table.apply(key, hits, windowEndSeconds, nowSeconds, keptUntil));
    }
    return values;
  }

  applyGroups(steps: readonly GroupStep[]): GroupCounts {
    const nowSeconds = this.#nowSeconds();
    return steps.map((step) => this.#applyGroup(step, nowSeconds));
  }

  change(changes: readonly CounterChange[]): Promise<number> {
    const nowSeconds = this.#nowSeconds();
    return Promise.resolve(changes.filter((change) => this.#change(change, nowSeconds)).length);
  }

  deleteByPrefix(prefixes: readonly string[]): number {
    const nowSeconds = this.#nowSeconds();
    return this.#table.deleteByPrefix(prefixes, nowSeconds) + this.#sliding.deleteByPrefix(prefixes, nowSeconds);
  }

  isHealthy(): boolean {
    return true;
  }

  *liveCounters(): Generator<LiveCounter> {
    const nowSeconds = this.#nowSeconds();
    yield* this.#table.entries(nowSeconds);
    yield* this.#sliding.entries(nowSeconds);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #nowSeconds(): number {
    return Math.floor(this.#clock.nowMs() / 1_000);
  }

  #applyGroup(step: GroupStep, nowSeconds: number): readonly GroupCount[] {
    const cells = step.counters.map((counter) => this.#cell(counter, step.hits, nowSeconds));
    const buckets = (kind: GroupCounter["kind"]) =>
      cells.filter((_, i) => step.counters[i]?.kind === kind).map(({ bucket }) => bucket);
    return this.#table.withLocks(buckets("aligned"), () =>
      this.#sliding.withLocks(buckets("sliding"), () => {
        const counts = cells.map(({ read }) => read());
        if (isCounted(step, counts)) for (const { add } of cells) add();
        return counts;
      }),
    );
  }

  /** Returns the counter of one limit, with its lock, its state and its change. */
  #cell(counter: GroupCounter, hits: number, nowSeconds: number): Cell {
    return counter.kind === "aligned"
      ? alignedCell(this.#table.counter(counter.key), counter, hits, nowSeconds)
      : slidingCell(this.#sliding.window(counter.key), counter, hits, nowSeconds);
  }

  #change({ kind, key, count = 0, keepSeconds, ...change }: CounterChange, nowSeconds: number): boolean {
    if (kind === "sliding") {
      const window = this.#sliding.window(key);
      const existed = this.#sliding.withLocks([window.bucket], () => window.replace(change, count, nowSeconds));
      return existed || count > 0;
    }
    if (count === 0) return this.#table.delete(key, nowSeconds);
    const end = {
      windowEndSeconds: change.windowEndSeconds,
      keptUntilSeconds: Math.max(change.windowEndSeconds, nowSeconds + keepSeconds),
    };
    const counter = this.#table.counter(key);
    this.#table.withLocks([counter.bucket], () => counter.write(count, end, nowSeconds));
    return true;
  }
}

interface Cell {
  readonly bucket: number;
  readonly read: () => GroupCount;
  readonly add: () => void;
}

function alignedCell(
  locked: LockedCounter,
  { windowEndSeconds, keepSeconds }: Extract<GroupCounter, { kind: "aligned" }>,
  hits: number,
  nowSeconds: number,
): Cell {
  const end = { windowEndSeconds, keptUntilSeconds: nowSeconds + keepSeconds };
  return {
    bucket: locked.bucket,
    read: () => ({ before: locked.read() }),
    add: () => locked.write(Math.min(maxCount, Math.max(0, locked.read() + hits)), end, nowSeconds),
  };
}

function slidingCell(
  locked: LockedWindow,
  counter: Extract<GroupCounter, { kind: "sliding" }>,
  hits: number,
  nowSeconds: number,
): Cell {
  const needed = (before: number) => before + Math.max(1, hits) - counter.limit;
  return {
    bucket: locked.bucket,
    read: () => locked.read(counter, needed),
    add: () => locked.add(counter, hits, nowSeconds),
  };
}
