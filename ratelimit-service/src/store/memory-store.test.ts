import { createCounterMemory } from "@gatewayproxy/runtime/counter-memory";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import { describeCounterStore } from "./testing/contract.ts";
import { CounterTable } from "./counter-table.ts";
import { MemoryStore } from "./memory-store.ts";

function openStores(counters = 65_536, clock = new FakeClock()) {
  const memory = createCounterMemory(counters);
  const [table, siblingTable] = [new CounterTable(memory, 1), new CounterTable(memory, 2)];
  return {
    clock,
    table,
    store: new MemoryStore(table, clock),
    sibling: new MemoryStore(siblingTable, clock),
    nowSeconds: clock.nowMs() / 1_000,
    close: () => Promise.resolve(),
  };
}

describeCounterStore("memory", () => Promise.resolve(openStores()));

describe("the memory store", () => {
  test("shows a counter until its window has ended, to the second", () => {
    const { store, clock, nowSeconds } = openStores();
    store.apply([{ key: "k", hits: 5, windowSeconds: 60, windowEndSeconds: nowSeconds + 60 }]);
    clock.advance(59_999);
    expect([...store.liveCounters()]).toHaveLength(1);
    clock.advance(1);
    expect([...store.liveCounters()]).toEqual([]);
  });

  test("counts a call in the window that it came in, though that ends before its turn", () => {
    const { store, clock, nowSeconds } = openStores();
    const step = { key: "k", hits: 1, windowSeconds: 60, windowEndSeconds: nowSeconds + 60 };
    clock.advance(59_999);
    store.apply([step, step]);
    clock.advance(1);
    expect(store.apply([step])).toEqual([3]);
  });

  test("lists the counters of running windows, long keys cut", () => {
    const { store, clock, nowSeconds } = openStores();
    const windowEndSeconds = nowSeconds + 60;
    store.apply([
      { key: "domain_user_alice_1700000040", hits: 3, windowSeconds: 60, windowEndSeconds },
      { key: "x".repeat(500), hits: 1, windowSeconds: 60, windowEndSeconds },
      { key: "gone", hits: 1, windowSeconds: 1, windowEndSeconds: nowSeconds + 1 },
    ]);
    clock.advance(1_000);
    const counters = [...store.liveCounters()].sort((a, b) => b.count - a.count);
    expect(counters).toEqual([
      { key: "domain_user_alice_1700000040", count: 3, windowEndSeconds },
      { key: "x".repeat(92), count: 1, windowEndSeconds },
    ]);
  });

  test("holds no more counters than it has room for, and forgets those that end first", () => {
    const { store, table, nowSeconds } = openStores(160);
    const steps = Array.from({ length: 10_000 }, (_, i) => ({
      key: `k${i}`,
      hits: 1,
      windowSeconds: 10_000,
      windowEndSeconds: nowSeconds + 1 + i,
    }));
    store.apply(steps);
    const ends = [...store.liveCounters()].map(({ windowEndSeconds }) => windowEndSeconds - nowSeconds);
    expect(table.capacity).toBe(160);
    expect(ends).toHaveLength(160);
    expect(table.evictions).toBe(10_000 - 160);
    // 160 buckets' worth of the latest; chance spreads them over ten buckets of sixteen.
    expect(Math.min(...ends)).toBeGreaterThan(10_000 - 1_000);
  });

  test("evicts nothing while it is a sixth full", () => {
    // Keys are spread over the buckets by chance: with twice as many, one run in a hundred would fill a bucket.
    const { store, table, nowSeconds } = openStores(16_384);
    const steps = Array.from({ length: 2_700 }, (_, i) => ({
      key: `k${i}`,
      hits: 1,
      windowSeconds: 60,
      windowEndSeconds: nowSeconds + 60,
    }));
    store.apply(steps);
    expect(table.evictions).toBe(0);
  });

  test("takes the room of ended windows before it forgets anything", () => {
    const { store, clock, table, nowSeconds } = openStores(16);
    for (let window = 0; window < 100; window++) {
      const windowEndSeconds = nowSeconds + window + 1;
      const steps = Array.from({ length: 16 }, (_, i) => ({
        key: `${window}_${i}`,
        hits: 1,
        windowSeconds: 1,
        windowEndSeconds,
      }));
      expect(store.apply(steps)).toEqual(Array(16).fill(1));
      clock.advance(1_000);
    }
    expect(table.evictions).toBe(0);
  });

  test("rejects a size that makes no sense", () => {
    expect(() => createCounterMemory(0)).toThrow(/0 counters must have 1 to 16777216/);
  });
});
