/**
 * Entry of a worker thread, which decides calls on its own event loop and is controlled by messages of the main thread.
 */
import { parentPort, workerData } from "node:worker_threads";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { exportProblems } from "@gatewayproxy/runtime/export-problems";
import { collectGarbage, readHeapSamples, startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";
import { openStdout } from "@gatewayproxy/runtime/log-destination";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { CallThread } from "./call-thread.ts";
import { createLogs } from "./logs.ts";
import { exportLines } from "./open-line-export.ts";
import { openServiceTracing } from "./open-service-tracing.ts";
import type { FromWorker, ToWorker, WorkerStart } from "./messages.ts";

startHeapSampling();

// Only WorkerPool writes workerData.
const { settings, counterMemory, refunds, thread } = workerData as WorkerStart;

const main = parentPort;
if (main === null) throw new Error("this file is the entry of a worker thread and cannot run alone");
const post = (message: FromWorker): void => main.postMessage(message);

const logSettings = { filter: settings.values.logLevel, format: settings.values.logFormat };
const output = openStdout();
const logs = createLogs(logSettings, systemClock, { write: (line) => output.write(line) }, { worker: thread });

const exportLog = logs.logger("ratelimit::tracing");
const onProblem = exportProblems(exportLog);
const { tracing: tracingSettings, logExport } = settings.telemetry;
const exportedLines = logExport && (await exportLines(logExport, logs, onProblem));
const tracing = tracingSettings && (await openServiceTracing(tracingSettings, exportLog, onProblem));

const calls = await CallThread.open({
  settings,
  counterMemory,
  refunds,
  thread,
  clock: systemClock,
  logs,
  random: Math.random,
  tracing,
  exportedLines: exportedLines?.counts,
});
// The main thread stops the process when its own connection fails for good; a worker retries until the main thread
// closes it.
calls.connected.catch(() => undefined);

async function handle(message: ToWorker): Promise<void> {
  switch (message.kind) {
    case "config":
      calls.applyPostedConfig(message.update);
      return;
    case "listen":
      post({ kind: "listening", request: message.request, address: await calls.listen(message.address) });
      collectGarbage();
      return;
    case "stats":
      post({ kind: "stats", request: message.request, stats: calls.takeStats(message.histograms) });
      return;
    case "heapSamples":
      post({ kind: "heapSamples", request: message.request, samples: readHeapSamples() });
      return;
    case "withdraw":
      calls.withdraw();
      return;
    case "close":
      await calls.close(message.graceMs);
      await exportedLines?.close();
      post({ kind: "closed", request: message.request });
  }
}

main.on("message", (message: ToWorker) => {
  handle(message).catch((error: unknown) => {
    if (!("request" in message)) throw error;
    const text = errorMessage(error);
    post({ kind: "failed", request: message.request, message: text });
  });
});
