import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { createCounterMemory } from "@gatewayproxy/runtime/counter-memory";
import { describe, expect, test } from "vitest";
import { CounterTable } from "./counter-table.ts";
import { createStoreMemory, MemoryTables, type StoreMemory } from "./memory-tables.ts";

/** Counts `calls` times on one counter, and on as many more as `keys` says, in a thread of its own. */
function countInThread(memory: SharedArrayBuffer, owner: number, calls: number): Promise<unknown> {
  const tableUrl = new URL("./counter-table.ts", import.meta.url).href;
  const worker = new Worker(
    `const { workerData } = require("node:worker_threads");
     import(${JSON.stringify(tableUrl)}).then(({ CounterTable }) => {
       const table = new CounterTable(workerData.memory, workerData.owner);
       for (let i = 0; i < workerData.calls; i++) {
         table.apply("shared", 1, 2_000_000_000, 1_000_000_000);
         table.apply("key" + (i % 500), 2, 2_000_000_000, 1_000_000_000);
       }
     });`,
    { eval: true, workerData: { memory, owner, calls } },
  );
  return once(worker, "exit");
}

/** Counts `calls` groups of a counter and a sliding window, in a thread of its own. */
function countGroupsInThread(memory: StoreMemory, owner: number, calls: number): Promise<unknown> {
  const url = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);
  const worker = new Worker(
    `const { workerData } = require("node:worker_threads");
     Promise.all([import(${url("./memory-store.ts")}), import(${url("./memory-tables.ts")})]).then(([a, b]) => {
       const tables = new b.MemoryTables(workerData.memory, workerData.owner);
       const store = new a.MemoryStore(tables, { nowMs: () => 1e12 });
       const group = (i) => ({ hits: 1, countsDenied: false, counters: [
         { kind: "sliding", key: "s" + (i % 40), limit: 1000, windowSeconds: 60, subWindow: 1e9 },
         { kind: "aligned", key: "a" + (i % 30), limit: 1e9, windowEndSeconds: 2e9, keepSeconds: 60 },
         { kind: "sliding", key: "all", limit: 30000, windowSeconds: 60, subWindow: 1e9 },
       ] });
       for (let i = 0; i < workerData.calls; i++) store.applyGroups([group(i)]);
     });`,
    { eval: true, workerData: { memory, owner, calls } },
  );
  return once(worker, "exit");
}

describe("groups of counters in shared memory", () => {
  test("allow exactly their limits among eight threads, and never wait for each other", {
    timeout: 60_000,
  }, async () => {
    const memory = createStoreMemory(4_096);
    await Promise.all(Array.from({ length: 8 }, (_, i) => countGroupsInThread(memory, i + 2, 10_000)));
    const { sliding, counters } = new MemoryTables(memory, 1);
    const counts = new Map([...sliding.entries(1e9), ...counters.entries(1e9)].map(({ key, count }) => [key, count]));
    const sum = (letter: string) =>
      [...counts].reduce((total, [key, count]) => (key.startsWith(letter) ? total + count : total), 0);
    expect(counts.get("all")).toBe(30_000);
    expect(counts.get("s0")).toBeLessThanOrEqual(1_000);
    expect(sum("s")).toBe(30_000);
    expect(sum("a") - 30_000).toBe(30_000);
  });

  test("are free again when a thread died that held their locks", () => {
    const memory = createStoreMemory(4_096);
    const dead = new MemoryTables(memory, 2);
    const [counter, window] = [dead.counters.counter("a"), dead.sliding.window("s")];
    expect(() =>
      dead.counters.withLocks([counter.bucket], () =>
        dead.sliding.withLocks([window.bucket], () => {
          expect(new MemoryTables(memory, 1).releaseLocksOf(2)).toBe(2);
          expect(new MemoryTables(memory, 1).releaseLocksOf(2)).toBe(0);
          throw new Error("the thread ends");
        }),
      ),
    ).toThrow("the thread ends");
  });
});

describe("counters in shared memory", () => {
  test("lose no count among eight threads", { timeout: 60_000 }, async () => {
    const memory = createCounterMemory(4_096);
    await Promise.all(Array.from({ length: 8 }, (_, i) => countInThread(memory, i + 2, 20_000)));
    const table = new CounterTable(memory, 1);
    expect(table.apply("shared", 0, 2_000_000_000, 1_000_000_000)).toBe(160_000);
    const others = Array.from({ length: 500 }, (_, i) => table.apply(`key${i}`, 0, 2_000_000_000, 1_000_000_000));
    expect(new Set(others)).toEqual(new Set([8 * 40 * 2]));
  });
});
