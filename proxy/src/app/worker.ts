/** Entry of a worker thread: one data plane on its own event loop, driven by messages of the main thread. */
import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import type { Task } from "@gatewayproxy/admin-api/tasks";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { surviveRejections } from "@gatewayproxy/runtime/lifecycle";
import { readHeapSamples, startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";
import { Logs } from "@gatewayproxy/runtime/log";
import { LineLimit } from "@gatewayproxy/runtime/line-limit";
import { BatchedDestination, openStdout } from "@gatewayproxy/runtime/log-destination";
import { type LogFilter, parseLogFilter } from "@gatewayproxy/runtime/log-filter";
import { inTurns } from "@gatewayproxy/runtime/steps";
import { nameLearned } from "../admin/live-limits.ts";
import { parseExpression } from "../cel/expression.ts";
import { DecisionRing } from "../admin/decision-ring.ts";
import { threadTasks } from "../admin/endpoints/tasks.ts";
import { readThreadMemory } from "../admin/endpoints/memory.ts";
import { CounterTable } from "../policy/ratelimit/counter-table.ts";
import { BodyBudget } from "../server/body-budget.ts";
import type { FaultPlace } from "../server/faults.ts";
import { DataPlane } from "../server/data-plane.ts";
import { accessLogModule, createAccessLog } from "../telemetry/access-log.ts";
import { GlobalLimitMetrics } from "../telemetry/global-limit-metrics.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import { RequestLog } from "../telemetry/request-log.ts";
import { RequestMetrics } from "../telemetry/request-metrics.ts";
import type { TraceWatch } from "../telemetry/trace/tracer.ts";
import { answerQuery, type FromWorker, type QueryAnswers, type ToWorker, type WorkerStart } from "./messages.ts";
import { ReceivedParts } from "./snapshot-parts.ts";

startHeapSampling();

// The only writer of workerData is WorkerPool.
const start = workerData as WorkerStart;

const main = parentPort;
if (main === null) throw new Error("this file is the entry of a worker thread and cannot run alone");
const say = (message: FromWorker): void => main.postMessage(message);

const filter = readLogFilter(start.logFilter);
const metrics = new RequestMetrics();
const output = openStdout();
const logs = new Logs({
  filter,
  clock: systemClock,
  destination: output,
  bindings: { worker: start.worker },
});
const log = logs.logger("proxy::server");
const globalLimitMetrics = new GlobalLimitMetrics(logs.logger("proxy::ratelimit"));
const accessLines = new BatchedDestination({ output, clock: systemClock, onDrop: () => metrics.logLineDropped() });
/** Of lines of requests and connections, which come with every one of them and so go where those of the access log go. */
const requestLogs = new Logs({
  filter,
  clock: systemClock,
  destination: accessLines,
  bindings: { worker: start.worker },
});
const requestLog = new RequestLog({
  access: requestLogs.logger("proxy::access"),
  routing: requestLogs.logger("proxy::routing"),
  ratelimit: requestLogs.logger("proxy::ratelimit"),
  upstream: requestLogs.logger("proxy::upstream"),
  server: requestLogs.logger("proxy::server"),
});
const logAccess = createAccessLog({
  mode: start.accessLog,
  logger: logs.logger(accessLogModule),
  destination: accessLines,
  clock: systemClock,
});

/** A flood of connections must not be a flood of lines. */
const shedLines = new LineLimit(systemClock, 1);
const faultLines = new LineLimit(systemClock, 5);

function faulted(err: unknown, place: FaultPlace | "task", record?: RequestRecord): void {
  metrics.faulted(place);
  faultLines.tell((omitted) => {
    log.error({ err, place, requestId: record?.requestId, omitted }, "something failed inside the proxy");
  });
}

const decisions = new DecisionRing(start.worker);
/** Between workers: the keys of rate limit services that are back after an absence. */
const servicesBack = new BroadcastChannel("rate limit services that are back");
const dataPlane = new DataPlane({
  worker: start.worker,
  requestLog,
  connectionLog: requestLogs.logger("proxy::server"),
  upstreamLog: logs.logger("proxy::upstream"),
  clock: systemClock,
  random: Math.random,
  createRequestId: randomUUID,
  counters: new CounterTable(start.counters, start.worker),
  bodies: new BodyBudget(start.bodies, start.worker, start.bodyMemoryBytes),
  clientMemory: start.clientMemory,
  trustedHops: start.trustedHops,
  ipv6PrefixLength: start.ipv6PrefixLength,
  streamIdleTimeoutMs: start.streamIdleTimeoutMs,
  contendedStreamIdleTimeoutMs: start.contendedStreamIdleTimeoutMs,
  upstream: start.upstream,
  addresses: new AddressGuard(start.addresses),
  abandonedAnswers: start.abandonedAnswers,
  globalLimits: globalLimitMetrics,
  onRateLimitServiceBack: (service) => servicesBack.postMessage(service),
  reusePort: start.reusePort,
  expectsProxyHeader: start.expectsProxyHeader,
  upgradeProtocols: start.upgradeProtocols,
  requestRules: start.requestRules,
  observer: {
    connectionOpened: (bind) => metrics.connectionOpened(bind),
    connectionClosed: (bind) => metrics.connectionClosed(bind),
    connectionShed(reason, client) {
      metrics.connectionShed(reason);
      shedLines.tell((omitted) => {
        const fields = { reason, client, omitted };
        if (reason === "timeout")
          log.warn(fields, "closed a connection: a header block or trailers did not end in time");
        else log.warn(fields, "closed a connection: --max-client-memory is used up");
      });
    },
    requestStarted: (bind) => metrics.requestStarted(bind),
    requestEnded(bind, record) {
      metrics.requestEnded(bind, record);
      logAccess(record);
    },
    denied(record, denial) {
      decisions.add({ record, denial, atMs: systemClock.nowMs(), monotonicMs: systemClock.monotonicMs() });
    },
    mirrored: (backend, outcome) => metrics.mirrored(backend, outcome),
  },
  faulted,
});

// Only workers write to it, as above.
servicesBack.onmessage = ({ data }) => dataPlane.rateLimitServiceIsBack(data as string);

// A task that nobody waits for has failed; what it was about ends, and the others go on. An exception outside of any
// promise ends the thread, and WorkerPool starts another one.
surviveRejections(process, (error) => faulted(error, "task"));

let generation = 0;
const parts = new ReceivedParts();

const answers: QueryAnswers = {
  metrics: () => [...metrics.snapshot(), ...globalLimitMetrics.snapshot()],
  setLogFilter(text) {
    const read = readLogFilter(text);
    logs.setFilter(read);
    requestLogs.setFilter(read);
    dataPlane.tracer.logFilterChanged();
  },
  memory: () => readThreadMemory(`worker ${start.worker}`),
  heapSamples: () => readHeapSamples(),
  generation: () => generation,
  watch: ({ id, claim, expression }) => {
    const sink = (event: TraceEvent | undefined): void => say({ kind: "traced", watch: id, event });
    dataPlane.tracer.add({ id, claim, matches: conditionOf(expression), sink });
  },
  unwatch(id) {
    dataPlane.tracer.remove(id);
  },
  tasks: () => threadTasks(`worker ${start.worker}`, [...dataPlane.tasks(), ...serviceTasks()]),
  decisions: (question) => decisions.find(question),
  learnedLimits: (max) => dataPlane.learnedLimits(max).map(nameLearned),
  rateLimitServices: () => dataPlane.rateLimitServices(),
  endpoints: () => dataPlane.endpoints(),
};

function serviceTasks(): readonly Task[] {
  return dataPlane.rateLimitServices().map(({ service, breaker, chargesBuffered }) => {
    return { kind: "rateLimitService", name: service, detail: { breaker, chargesBuffered }, children: [] };
  });
}

/** Whether a request meets a condition in CEL, which the main thread has found sound. */
function conditionOf(source: string | undefined): TraceWatch["matches"] {
  if (source === undefined) return undefined;
  const parsed = parseExpression(source, { phase: "head", gives: "condition" });
  if (!parsed.ok) throw new Error(`the main thread gave a condition that does not parse: ${source}`);
  return (view) => parsed.value.evaluate(view) === "true";
}

function readLogFilter(text: string): LogFilter {
  const parsed = parseLogFilter(text);
  if (!parsed.ok) throw new Error(`the main thread gave a log filter that does not parse: ${text}`);
  return parsed.value;
}

type Order = Exclude<ToWorker, { kind: "query" }>;

async function carryOut(order: Order): Promise<void> {
  switch (order.kind) {
    case "parts":
      // Several batches may arrive at once; each is read in a turn of its own.
      await nextTurn();
      parts.take(order.parts);
      return;
    case "apply": {
      parts.forget(order.gone);
      const failures = await dataPlane.apply(await inTurns(parts.assemble(order.frame)));
      generation = order.frame.generation;
      say({ kind: "applied", id: order.id, failures });
      return;
    }
    case "leave":
      dataPlane.leave();
      return;
    case "drain":
      await dataPlane.drain();
      await accessLines.flush();
      say({ kind: "drained" });
      return;
  }
}

/** An order that fails must not hold up those after it, nor whoever waits for it. */
function abandonOrder(order: Order, error: unknown): void {
  log.error({ err: error, order: order.kind }, "an order of the main thread has failed");
  const message = `worker ${start.worker} cannot apply the configuration: ${String(error)}`;
  if (order.kind === "apply")
    say({ kind: "applied", id: order.id, failures: [{ address: undefined, port: 0, message }] });
  if (order.kind === "drain") say({ kind: "drained" });
}

// Orders are carried out one after the other: snapshots must not overtake each other. Questions do not wait for them, so
// that one who watches a worker drain gets answers.
let carriedOut = Promise.resolve();
main.on("message", (message: ToWorker) => {
  if (message.kind === "query") say({ kind: "answer", id: message.id, answer: answerQuery(answers, message) });
  else carriedOut = carriedOut.then(() => carryOut(message)).catch((error: unknown) => abandonOrder(message, error));
});
