/** Entry of a worker thread: answers calls on its own event loop, told what to do by the main thread. */
import { parentPort, workerData } from "node:worker_threads";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { readHeapSamples, startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";
import { openStdout } from "@gatewayproxy/runtime/log-destination";
import { CallThread } from "./call-thread.ts";
import { createLogs } from "./logs.ts";
import type { FromWorker, ToWorker, WorkerStart } from "./messages.ts";

startHeapSampling();

// The only writer of workerData is WorkerPool.
const { settings, counterMemory, refunds, thread } = workerData as WorkerStart;

const main = parentPort;
if (main === null) throw new Error("this file is the entry of a worker thread and cannot run alone");
const say = (message: FromWorker): void => main.postMessage(message);

const logSettings = { filter: settings.values.logLevel, format: settings.values.logFormat };
const output = openStdout();
const logs = createLogs(logSettings, systemClock, { write: (line) => output.write(line) }, { worker: thread });

const calls = new CallThread({
  settings,
  counterMemory,
  refunds,
  thread,
  clock: systemClock,
  logs,
  random: Math.random,
});
// The main thread gives up by its own connection; a worker goes on trying until it is told to close.
calls.connected.catch(() => undefined);

async function handle(message: ToWorker): Promise<void> {
  switch (message.kind) {
    case "config":
      calls.takeHandedConfig(message.update);
      return;
    case "listen":
      say({ kind: "listening", request: message.request, address: await calls.listen(message.address) });
      return;
    case "stats":
      say({ kind: "stats", request: message.request, stats: calls.takeStats() });
      return;
    case "heapSamples":
      say({ kind: "heapSamples", request: message.request, samples: readHeapSamples() });
      return;
    case "withdraw":
      calls.withdraw();
      return;
    case "close":
      await calls.close(message.graceMs);
      say({ kind: "closed", request: message.request });
  }
}

main.on("message", (message: ToWorker) => {
  handle(message).catch((error: unknown) => {
    if (!("request" in message)) throw error;
    const text = error instanceof Error ? error.message : String(error);
    say({ kind: "failed", request: message.request, message: text });
  });
});
