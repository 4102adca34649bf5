/** A worker thread for tests. It runs one job after the other against shared memory and posts a report for each. */
import { parentPort, workerData } from "node:worker_threads";
import type { LocalLimit } from "../../../ir/limit.ts";
import { BucketLocks } from "@gatewayproxy/runtime/bucket-locks";
import { CounterTable } from "../counter-table.ts";
import { compileLimits } from "../local-limiter.ts";
import { requestOf } from "./local-limits.ts";

export type Job =
  /** Sends requests to each rule in turn; every `refundEvery`-th that passes is refunded. */
  | {
      readonly kind: "admit";
      readonly memory: SharedArrayBuffer;
      /** The moment at which every request comes. */
      readonly nowMs: number;
      readonly rules: readonly (readonly LocalLimit[])[];
      readonly requests: number;
      /** Distinct values of the header `x-api-key`. */
      readonly clients: number;
      readonly refundEvery?: number;
    }
  /** Takes the lock of a table's bucket and keeps it. */
  | { readonly kind: "hold"; readonly memory: SharedArrayBuffer; readonly bucket: number }
  /** Takes a lock, adds 1 to a plain shared number and lets go, over and over; `times` 0 takes it and keeps it. */
  | { readonly kind: "increment"; readonly words: Int32Array; readonly number: Float64Array; readonly times: number };

/** By rule: requests that passed and were not refunded; empty for other jobs. */
export type Report = readonly number[];

// Given by the test that started this thread.
const { owner } = workerData as { readonly owner: number };

function run(job: Job): Report {
  switch (job.kind) {
    case "admit":
      return admitAll(job);
    case "hold":
      new CounterTable(job.memory, owner).lock([job.bucket]);
      return [];
    case "increment":
      increment(job);
      return [];
  }
}

function admitAll(job: Extract<Job, { kind: "admit" }>): Report {
  const table = new CounterTable(job.memory, owner);
  const sets = job.rules.map((limits) => compileLimits(limits, table));
  const kept = sets.map(() => 0);
  let passed = 0;
  for (let at = 0; at < job.requests; at++) {
    const rule = at % sets.length;
    const admission = sets[rule]?.decide(requestOf(`client ${at % job.clients}`), job.nowMs);
    if (admission?.kind !== "allowed") continue;
    passed++;
    if (job.refundEvery !== undefined && passed % job.refundEvery === 0) admission.reservation.refund(job.nowMs);
    else kept[rule] = (kept[rule] ?? 0) + 1;
  }
  return kept;
}

function increment({ words, number, times }: Extract<Job, { kind: "increment" }>): void {
  const locks = new BucketLocks(words, owner);
  if (times === 0) locks.lock(0);
  for (let time = 0; time < times; time++) {
    locks.lock(0);
    number[0] = (number[0] ?? 0) + 1;
    locks.unlock(0);
  }
}

parentPort?.on("message", (job: Job) => parentPort?.postMessage(run(job)));
parentPort?.postMessage([]);
