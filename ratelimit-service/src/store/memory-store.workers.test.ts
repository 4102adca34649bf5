import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { createCounterMemory } from "@gatewayproxy/runtime/counter-memory";
import { describe, expect, test } from "vitest";
import { CounterTable } from "./counter-table.ts";

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
