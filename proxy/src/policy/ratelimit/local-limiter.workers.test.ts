/** The limiter and its locks under real threads: exact sums, in any order of the threads. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LocalLimit } from "../../ir/limit.ts";
import { BucketLocks } from "@gatewayproxy/runtime/bucket-locks";
import { CounterTable, createCounters } from "./counter-table.ts";
import { compileLimits } from "./local-limiter.ts";
import type { Job, Report } from "./testing/limiter-thread.ts";
import { concurrentLimit, request, requestsLimit } from "./testing/local-limits.ts";

interface Thread {
  readonly owner: number;
  readonly worker: Worker;
}

const nowMs = 1_000;
const mainOwner = 100;

/** Started once for all tests: most of a thread's time is its start. */
let eight: readonly Thread[] = [];
const started: Thread[] = [];

beforeAll(async () => {
  eight = await Promise.all(Array.from({ length: 8 }, startThread));
}, 120_000);

afterAll(async () => {
  await Promise.all(started.map(({ worker }) => worker.terminate()));
});

async function startThread(): Promise<Thread> {
  const owner = started.length + 1;
  const worker = new Worker(new URL("./testing/limiter-thread.ts", import.meta.url), { workerData: { owner } });
  started.push({ owner, worker });
  await once(worker, "message");
  return { owner, worker };
}

async function give({ worker }: Thread, job: Job): Promise<Report> {
  const response = once(worker, "message");
  worker.postMessage(job);
  const [report] = (await response) as [Report]; // The thread posts nothing else.
  return report;
}

/** The same job for all eight at once; returns the sum of their reports by rule. */
async function giveAll(job: Job): Promise<readonly number[]> {
  const sums: number[] = [];
  for (const report of await Promise.all(eight.map((thread) => give(thread, job)))) {
    report.forEach((passed, rule) => (sums[rule] = (sums[rule] ?? 0) + passed));
  }
  return sums;
}

function usedOf(memory: SharedArrayBuffer, limit: LocalLimit): readonly number[] {
  const table = new CounterTable(memory, mainOwner);
  const label = table.labelOf(limit);
  return [...table.entries(nowMs)].filter(({ entry }) => entry === label).map(({ used }) => used);
}

describe("eight threads on one table", () => {
  test("admit exactly the capacity of an entry between them", async () => {
    const memory = createCounters(1024, 2);
    const limit = requestsLimit({ amount: 100_000, burst: 5 });
    expect(await giveAll({ kind: "admit", memory, nowMs, rules: [[limit]], requests: 50_000, clients: 1 })).toEqual([
      100_005,
    ]);
    expect(usedOf(memory, limit)).toEqual([100_005]);
  });

  test("count each request in all of its entries or in none, in whatever order rules name them", async () => {
    const memory = createCounters(1024, 2);
    const narrow = requestsLimit({ amount: 20_000 });
    const middle = requestsLimit({ amount: 40_000 });
    const wide = requestsLimit({ amount: 1_000_000 });
    const rules = [[narrow, wide], [wide, middle, narrow], [middle], [wide, middle]];
    const passed = await giveAll({ kind: "admit", memory, nowMs, rules, requests: 40_000, clients: 1 });
    const [a = 0, b = 0, c = 0, d = 0] = passed;
    expect(a + b).toBe(20_000);
    expect(b + c + d).toBe(40_000);
    expect(usedOf(memory, narrow)).toEqual([20_000]);
    expect(usedOf(memory, middle)).toEqual([40_000]);
    expect(usedOf(memory, wide)).toEqual([a + b + d]);
  });

  test("refund exactly their units", async () => {
    const memory = createCounters(1024, 2);
    const limits = [requestsLimit({ amount: 30_000 }), requestsLimit({ amount: 1_000_000 })];
    const job: Job = { kind: "admit", memory, nowMs, rules: [limits], requests: 20_000, clients: 1, refundEvery: 3 };
    expect(await giveAll(job)).toEqual([30_000]);
    for (const limit of limits) expect(usedOf(memory, limit)).toEqual([30_000]);
  });

  test("have no more requests in progress than a limit allows, and release each place once", async () => {
    const memory = createCounters(16, 64);
    const limit = concurrentLimit({ amount: 1_000 });
    const job: Job = { kind: "admit", memory, nowMs, rules: [[limit]], requests: 5_000, clients: 1 };
    expect(await giveAll({ ...job, refundEvery: 2 })).toEqual([1_000]);
    expect(usedOf(memory, limit)).toEqual([1_000]);
  });

  test("keep clients apart though all of them share one bucket and its lock", async () => {
    const memory = createCounters(16, 2);
    const limit = requestsLimit({ amount: 3_000, key: 'request.headers["x-api-key"]' });
    const job: Job = { kind: "admit", memory, nowMs, rules: [[limit]], requests: 20_000, clients: 10 };
    expect(await giveAll(job)).toEqual([30_000]);
    expect(usedOf(memory, limit)).toEqual(Array.from({ length: 10 }, () => 3_000));
  });

  test("never hold one lock at the same time", async () => {
    const words = new Int32Array(new SharedArrayBuffer(4));
    const number = new Float64Array(new SharedArrayBuffer(8));
    await giveAll({ kind: "increment", words, number, times: 50_000 });
    expect(number[0]).toBe(400_000);
    expect(words[0]).toBe(0);
  });
});

describe("a thread that dies with a lock", () => {
  test("does not stop those who sleep on it, once its locks are released", async () => {
    const words = new Int32Array(new SharedArrayBuffer(4));
    const number = new Float64Array(new SharedArrayBuffer(8));
    const holder = await startThread();
    await give(holder, { kind: "increment", words, number, times: 0 });
    const sleeping = Promise.all(eight.map((thread) => give(thread, { kind: "increment", words, number, times: 100 })));
    while (Atomics.load(words, 0) !== -holder.owner) await new Promise((resolve) => setImmediate(resolve));
    await holder.worker.terminate();
    expect(new BucketLocks(words, mainOwner).releaseAll(holder.owner)).toBe(1);
    await sleeping;
    expect(number[0]).toBe(800);
  });

  test("loses the places of its requests in progress, and no others", async () => {
    const memory = createCounters(16, 64);
    const limit = concurrentLimit({ amount: 50, key: 'request.headers["x-api-key"]' });
    const window = requestsLimit({ amount: 1_000 });
    const [dying, other] = [await startThread(), await startThread()];
    const job: Job = { kind: "admit", memory, nowMs, rules: [[limit, window]], requests: 30, clients: 3 };
    await give(dying, job);
    await give(other, job);
    expect(usedOf(memory, limit)).toEqual([20, 20, 20]);
    await dying.worker.terminate();
    const table = new CounterTable(memory, mainOwner);
    expect(table.releaseUnitsOf(dying.owner)).toBe(30);
    expect(table.releaseUnitsOf(dying.owner)).toBe(0);
    expect(usedOf(memory, limit)).toEqual([10, 10, 10]);
    expect(usedOf(memory, window)).toEqual([60]);
  });

  test("leaves a table that goes on counting", async () => {
    const memory = createCounters(16, 2);
    const limit = requestsLimit({ amount: 50 });
    const holder = await startThread();
    await give(holder, { kind: "hold", memory, bucket: 0 });
    const waiting = giveAll({ kind: "admit", memory, nowMs, rules: [[limit]], requests: 100, clients: 1 });
    await holder.worker.terminate();
    const table = new CounterTable(memory, mainOwner);
    expect(table.releaseLocksOf(holder.owner)).toBe(1);
    expect(await waiting).toEqual([50]);
    expect(compileLimits([limit], table).decide(request, nowMs).kind).toBe("denied");
  });
});
