import { createCounterMemory } from "@gatewayproxy/runtime/counter-memory";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { describe, expect, test } from "vitest";
import type { GroupStep } from "../model/counter-store.ts";
import { describeCounterStore } from "./testing/contract.ts";
import { describeCounterGroups } from "./testing/group-contract.ts";
import { MemoryStore } from "./memory-store.ts";
import { createStoreMemory, MemoryTables } from "./memory-tables.ts";

function openStores(counters = 65_536, clock = new FakeClock()) {
  const memory = createStoreMemory(counters);
  const tables = new MemoryTables(memory, 1);
  return {
    clock,
    tables,
    table: tables.counters,
    store: new MemoryStore(tables, clock),
    sibling: new MemoryStore(new MemoryTables(memory, 2), clock),
    nowSeconds: clock.nowMs() / 1_000,
    close: () => Promise.resolve(),
  };
}

describeCounterStore("memory", () => Promise.resolve(openStores()));
describeCounterGroups("memory", () => Promise.resolve(openStores()));

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
      { key: "x".repeat(80), count: 1, windowEndSeconds },
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

  test("keeps a counter beyond its window while there is room, and takes its place before that of a running one", () => {
    const { store, clock, table, nowSeconds } = openStores(16);
    const kept = { key: "kept", hits: 5, windowSeconds: 60, windowEndSeconds: nowSeconds + 60, keepSeconds: 120 };
    const others = (count: number) =>
      Array.from({ length: count }, (_, i) => ({
        ...{ key: `k${i}`, hits: 1, windowSeconds: 600, windowEndSeconds: nowSeconds + 600 },
      }));
    store.apply([kept]);
    clock.advance(60_000);
    expect([...store.liveCounters()]).toEqual([]);
    store.apply(others(15));
    expect(store.apply([{ ...kept, hits: 0 }])).toEqual([5]);
    expect(store.apply(others(16)).at(-1)).toBe(1);
    expect(store.apply([...others(16), { ...kept, hits: 0 }])).toEqual([...Array<number>(15).fill(3), 2, 0]);
    expect(table.evictions).toBe(0);
  });

  test("holds no more sliding windows than it has room for, and forgets those that end first", () => {
    const { store, tables, nowSeconds } = openStores(128);
    const windowOf = (i: number): GroupStep => ({
      counters: [{ kind: "sliding", key: `k${i}`, limit: 9, windowSeconds: 60, subWindow: nowSeconds + i }],
      hits: 1,
      countsDenied: false,
    });
    store.applyGroups(Array.from({ length: 100 }, (_, i) => windowOf(i)));
    expect(tables.sliding.capacity).toBe(16);
    expect([...store.liveCounters()].map(({ key }) => Number(key.slice(1))).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 16 }, (_, i) => 84 + i),
    );
    expect(tables.evictions).toBe(84);
  });

  test("lists sliding windows until their last hits have left", () => {
    const { store, clock, nowSeconds } = openStores();
    const counter = {
      kind: "sliding",
      key: "{k_}sliding-60",
      limit: 9,
      windowSeconds: 60,
      subWindow: nowSeconds,
    } as const;
    store.applyGroups([{ counters: [counter], hits: 4, countsDenied: false }]);
    const listed = { key: "{k_}sliding-60", count: 4, windowEndSeconds: nowSeconds + 61 };
    expect([...store.liveCounters()]).toEqual([listed]);
    clock.advance(60_999);
    expect([...store.liveCounters()]).toEqual([listed]);
    clock.advance(1);
    expect([...store.liveCounters()]).toEqual([]);
  });

  test("deletes counters of every kind by the beginnings of their keys", () => {
    const { store, nowSeconds } = openStores();
    const end = { windowSeconds: 60, windowEndSeconds: nowSeconds + 60 };
    store.apply(["shop_a_1", "shop_b_1", "shopping_a_1"].map((key) => ({ key, hits: 1, ...end })));
    const counter = {
      kind: "sliding",
      key: "{shop_a_}sliding-60",
      limit: 9,
      windowSeconds: 60,
      subWindow: nowSeconds,
    } as const;
    store.applyGroups([{ counters: [counter], hits: 4, countsDenied: false }]);
    expect(store.deleteByPrefix(["shop_", "{shop_"])).toBe(3);
    expect([...store.liveCounters()].map(({ key }) => key)).toEqual(["shopping_a_1"]);
    expect(store.deleteByPrefix([""])).toBe(1);
    expect(store.deleteByPrefix([""])).toBe(0);
    expect(store.apply([{ key: "shop_a_1", hits: 1, ...end }])).toEqual([1]);
  });

  test("rejects a size that makes no sense", () => {
    expect(() => createCounterMemory(0)).toThrow(/0 counters must have 1 to 16777216/);
  });
});
