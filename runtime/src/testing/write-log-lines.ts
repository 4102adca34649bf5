/** A program for the test of standard output: threads that write batches of lines of all lengths, then end. */
import { isMainThread, threadId, Worker, workerData } from "node:worker_threads";
import { systemClock } from "../clock.ts";
import { Logs, openStdout } from "../log.ts";

const lines = Number(isMainThread ? process.argv[3] : workerData);
if (isMainThread) {
  const others = Number(process.argv[2]) - 1;
  for (let n = 0; n < others; n++) new Worker(new URL(import.meta.url), { workerData: lines });
}

const destination = openStdout("batch");
const logs = new Logs({ filter: { level: "info", modules: new Map() }, clock: systemClock, destination });
const log = logs.logger("test");
for (let n = 0; n < lines; n++) log.info({ thread: threadId, n, filling: "x".repeat(n % 700) }, "line");
destination.flushSync();
