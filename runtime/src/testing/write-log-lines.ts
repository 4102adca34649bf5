/** A program for the test of log destinations: its threads write lines of all lengths and then end. */
import { isMainThread, threadId, Worker, workerData } from "node:worker_threads";
import { systemClock } from "../timing/clock.ts";
import { BatchedDestination, openStdout } from "../log/log-destination.ts";

const lines = Number(isMainThread ? process.argv[3] : workerData);
if (isMainThread) {
  const workers = Number(process.argv[2]) - 1;
  for (let n = 0; n < workers; n++) new Worker(new URL(import.meta.url), { workerData: lines });
}

const onDrop = () => process.exit(1);
const output = openStdout();
const batched = new BatchedDestination({ output, clock: systemClock, onDrop });
for (let n = 0; n < lines; n++) {
  const line = `${JSON.stringify({ threadId, n, filling: "x".repeat(n % 900) })}\n`;
  // Some lines are written directly, as other loggers do.
  if (n % 10 === 0) output.write(line);
  else batched.write(line);
}
await batched.flush();
