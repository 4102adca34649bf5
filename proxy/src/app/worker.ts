/** Entry of a worker thread: one data plane with an event loop, controlled by messages of the main thread. */
import { randomUUID } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { MessageChannel, parentPort, workerData } from "node:worker_threads";
import type { Task } from "@gatewayproxy/admin-api/tasks";
import type { TraceEvent } from "@gatewayproxy/admin-api/trace-event";
import { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { exportProblems } from "@gatewayproxy/runtime/export-problems";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { surviveRejections } from "@gatewayproxy/runtime/lifecycle";
import { collectGarbage, readHeapSamples, startHeapSampling } from "@gatewayproxy/runtime/heap-sampling";
import { Logs } from "@gatewayproxy/runtime/log";
import { LineLimit } from "@gatewayproxy/runtime/line-limit";
import { BatchedDestination, type LogDestination, openStdout } from "@gatewayproxy/runtime/log-destination";
import type { OpenSender } from "@gatewayproxy/runtime/open-sender";
import { openSenderThrough } from "@gatewayproxy/runtime/sender-port";
import { type LogFilter, parseLogFilter } from "@gatewayproxy/runtime/log-filter";
import { redactPath } from "@gatewayproxy/runtime/redaction";
import { runInSlices } from "@gatewayproxy/runtime/steps";
import { nameLearned } from "../admin/live-limits.ts";
import { parseExpression } from "../cel/expression.ts";
import { DecisionRing } from "../admin/decision-ring.ts";
import { threadTasks } from "../admin/endpoints/tasks.ts";
import { readThreadMemory } from "../admin/endpoints/memory.ts";
import { CounterTable } from "../policy/ratelimit/counter-table.ts";
import type { ServiceNews } from "../policy/ratelimit/global/global-limiter.ts";
import { BodyBudget } from "../pipeline/body/body-budget.ts";
import { ProviderStates } from "../upstream/provider-states.ts";
import type { FaultPlace } from "../data-plane/faults.ts";
import { DataPlane } from "../data-plane/data-plane.ts";
import { createAccessLog, createStreamLog } from "../telemetry/access-log/access-log.ts";
import { accessLogModule } from "../telemetry/access-log/log-line.ts";
import { GlobalLimitMetrics } from "../telemetry/global-limit-metrics.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import { RequestLog } from "../telemetry/request-log.ts";
import { RequestMetrics } from "../telemetry/request-metrics.ts";
import type { TraceSubscription } from "../telemetry/trace/tracer.ts";
import { AccessLogOutput } from "./access-log-output.ts";
import { handleQuery, type FromWorker, type QueryHandlers, type ToWorker, type WorkerStart } from "./messages.ts";
import { udpWorkerOf } from "../streams/udp-worker.ts";
import { TokenCounter } from "../llm/tokens/token-counter.ts";
import { exportLines, openAccessRecords } from "./open-log-export.ts";
import { openRequestTracing } from "./open-request-tracing.ts";
import { ReceivedParts } from "./snapshot-parts.ts";

startHeapSampling();

// The only writer of workerData is WorkerPool.
const start = workerData as WorkerStart;

const main = parentPort;
if (main === null) throw new Error("this file is the entry of a worker thread and cannot run alone");
const send = (message: FromWorker): void => main.postMessage(message);
const tokens = new TokenCounter(systemClock, () => {
  const { port1, port2 } = new MessageChannel();
  main.postMessage({ kind: "tokenPort", port: port2 } satisfies FromWorker, [port2]);
  return port1;
});

const filter = readLogFilter(start.logFilter);
const metrics = new RequestMetrics(start.isLatestGenAi);
const output = openStdout();
const logs = new Logs({
  filter,
  clock: systemClock,
  destination: output,
  bindings: { worker: start.worker },
});
const log = logs.logger("proxy::server");
const globalLimitMetrics = new GlobalLimitMetrics(logs.logger("proxy::ratelimit"));
const accessLines = new BatchedDestination({ output, clock: systemClock, onDrop: () => metrics.logLinesDropped(1) });
/** Logs of requests and connections: frequent lines, which are batched like those of the access log. */
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
/** Limits the lines about closed connections, so that many connections do not cause many lines. */
const shedLines = new LineLimit(systemClock, 1);
const errorLines = new LineLimit(systemClock, 5);

function reportError(err: unknown, place: FaultPlace | "task", record?: RequestRecord): void {
  metrics.internalError(place);
  errorLines.log((omitted) => {
    const { requestId, traceId, spanId } = record ?? {};
    const fields = { err, place, requestId, trace_id: traceId, span_id: spanId, omitted };
    log.error(fields, "internal error of the proxy");
  });
}

/** The main thread sends, and reports the problems of a transport. */
const openSender: OpenSender = (transport) =>
  openSenderThrough((port) => {
    main.postMessage({ kind: "senderPort", transport, port } satisfies FromWorker, [port]);
  });
const exportLog = logs.logger("proxy::tracing");
const onProblem = exportProblems(exportLog);
const lineExporter =
  start.lineExport &&
  (await exportLines(start.lineExport, [logs, requestLogs], {
    log: exportLog,
    openSender,
    onRecordsEnded: (outcome, count) => metrics.linesExported(outcome, count),
    onProblem,
  }));
const tracing =
  start.tracing &&
  (await openRequestTracing(start.tracing, {
    worker: start.worker,
    log: exportLog,
    openSender,
    onSpansEnded: (outcome, count) => metrics.spansEnded(outcome, count),
    onProblem,
  }));
const accessRecords =
  start.accessLog.otlp &&
  (await openAccessRecords(start.accessLog.otlp, {
    log: exportLog,
    openSender,
    onRecordsEnded: (outcome, count) => metrics.logRecordsEnded(outcome, count),
    onProblem,
  }));
const exporters = [tracing, accessRecords, lineExporter].filter((each) => each !== undefined);

const accessFile = start.accessLog.toFile ? new AccessLogOutput(send) : undefined;
const fileLines =
  accessFile &&
  new BatchedDestination({
    output: accessFile.stream,
    clock: systemClock,
    onDrop: () => metrics.logLinesDropped(1),
  });
const accessLogOptions = {
  settings: start.accessLog.settings,
  logger: logs.logger(accessLogModule),
  destination: allOf([...(start.accessLog.toStdout ? [accessLines] : []), ...(fileLines ? [fileLines] : [])]),
  records: accessRecords,
  clock: systemClock,
  random: Math.random,
};
const logAccess = createAccessLog(accessLogOptions);
const logStream = createStreamLog(accessLogOptions);

/** Returns one destination for all; undefined for none. */
function allOf(destinations: readonly LogDestination[]): LogDestination | undefined {
  const [first, ...others] = destinations;
  if (first === undefined || others.length === 0) return first;
  return {
    write(line) {
      for (const { write } of destinations) write(line);
    },
  };
}

const decisions = new DecisionRing(start.worker);
/** Notifies the other workers of what this one has found out about rate limit services. */
const serviceNews = new BroadcastChannel("rate limit services");
const dataPlane = new DataPlane({
  worker: start.worker,
  requestLog,
  connectionLog: requestLogs.logger("proxy::server"),
  upstreamLog: logs.logger("proxy::upstream"),
  tracing,
  clock: systemClock,
  random: Math.random,
  createRequestId: randomUUID,
  counters: new CounterTable(start.counters, start.worker, systemClock),
  providers: new ProviderStates(start.providers, start.worker),
  bodies: new BodyBudget(start.bodies, start.worker, start.bodyMemoryBytes),
  clientMemory: start.clientMemory,
  trustedHops: start.trustedHops,
  ipv6PrefixLength: start.ipv6PrefixLength,
  streamIdleTimeoutMs: start.streamIdleTimeoutMs,
  contendedStreamIdleTimeoutMs: start.contendedStreamIdleTimeoutMs,
  upstream: start.upstream,
  streams: start.streams,
  addresses: new AddressGuard(start.addresses),
  abandonedResponses: start.abandonedResponses,
  tokens,
  globalLimits: globalLimitMetrics,
  onServiceNews: start.workers === 1 ? undefined : (news) => serviceNews.postMessage(news),
  reusePort: start.workers > 1 || start.listeningSockets > 1,
  listeningSockets: start.listeningSockets,
  servesUdp: (bind) => udpWorkerOf(bind, start.workers) === start.worker,
  expectsProxyHeader: start.expectsProxyHeader,
  upgradeProtocols: start.upgradeProtocols,
  requestRules: start.requestRules,
  observer: {
    connectionOpened: (bind) => metrics.connectionOpened(bind),
    connectionClosed: (bind) => metrics.connectionClosed(bind),
    connectionShed(reason, client) {
      metrics.connectionShed(reason);
      shedLines.log((omitted) => {
        const fields = { reason, client, omitted };
        if (reason === "timeout") {
          log.warn(fields, "closed a connection: a header block or trailers did not end in time");
        } else {
          log.warn(fields, "closed a connection: --max-client-memory is used up");
        }
      });
    },
    requestStarted: (bind) => metrics.requestStarted(bind),
    requestEnded(bind, record, request) {
      metrics.requestEnded(bind, record);
      logAccess(record, request);
    },
    denied(record, denial) {
      decisions.add({ record, denial, atMs: systemClock.nowMs(), monotonicMs: systemClock.monotonicMs() });
    },
    streamDenied(record, denial) {
      const times = { atMs: systemClock.nowMs(), monotonicMs: systemClock.monotonicMs() };
      decisions.addConnection({ record, denial, ...times });
    },
    keySetFetched(uri, outcome) {
      metrics.keySetFetched(outcome.kind);
      const fields = { uri: redactPath(uri), ...outcome };
      if (outcome.kind === "failed") log.warn(fields, "cannot read a key set; the last one stays in use");
      else if (outcome.leftOut.length > 0) log.warn(fields, "keys of a key set are not used");
    },
    mirrored: (backend, outcome) => metrics.mirrored(backend, outcome),
    streams: {
      streamOpened: (record) => metrics.streamOpened(record),
      bytesRelayed: (record, received, sent) => metrics.bytesRelayed(record, received, sent),
      streamEnded(record) {
        metrics.streamEnded(record);
        logStream(record);
      },
      datagramDropped: (listener, reason) => metrics.datagramDropped(listener, reason),
    },
  },
  faulted: reportError,
});

// Only workers send messages to this channel.
serviceNews.onmessage = ({ data }) => dataPlane.takeServiceNews(data as ServiceNews);

// A rejected promise without a handler ends only its own task. An exception outside of any promise ends the thread, and
// WorkerPool replaces it.
surviveRejections(process, (error) => reportError(error, "task"));

let generation = 0;
const parts = new ReceivedParts();

const handlers: QueryHandlers = {
  metrics(isNative) {
    if (isNative) for (const counted of [metrics, globalLimitMetrics]) counted.keepNative();
    return [...metrics.snapshot(), ...globalLimitMetrics.snapshot()];
  },
  setLogFilter(text) {
    const newFilter = readLogFilter(text);
    logs.setFilter(newFilter);
    requestLogs.setFilter(newFilter);
    dataPlane.tracer.logFilterChanged();
  },
  memory: () => readThreadMemory(`worker ${start.worker}`),
  heapSamples: () => readHeapSamples(),
  generation: () => generation,
  watch: ({ id, claim, expression, traceId }) => {
    const sink = (event: TraceEvent | undefined): void => send({ kind: "traced", watch: id, event });
    dataPlane.tracer.add({ id, claim, traceId, matches: conditionOf(expression), sink });
  },
  unwatch(id) {
    dataPlane.tracer.remove(id);
  },
  tasks: () => threadTasks(`worker ${start.worker}`, [...dataPlane.tasks(), ...serviceTasks()]),
  decisions: (query) => decisions.find(query),
  learnedLimits: (max) => dataPlane.learnedLimits(max).map(nameLearned),
  rateLimitServices: () => dataPlane.rateLimitServices(),
  keySets: () => dataPlane.keySets(),
  endpoints: (backends) => dataPlane.endpoints(backends),
};

function serviceTasks(): readonly Task[] {
  return dataPlane.rateLimitServices().map(({ service, breaker, chargesBuffered }) => {
    return { kind: "rateLimitService", name: service, detail: { breaker, chargesBuffered }, children: [] };
  });
}

/** Returns a predicate for a CEL condition, which the main thread has validated. */
function conditionOf(source: string | undefined): TraceSubscription["matches"] {
  if (source === undefined) return undefined;
  const parsed = parseExpression(source, { phase: "head", result: "condition" });
  if (!parsed.ok) throw new Error(`the main thread sent an invalid condition: ${source}`);
  return (view) => parsed.value.evaluate(view) === "true";
}

function readLogFilter(text: string): LogFilter {
  const parsed = parseLogFilter(text);
  if (!parsed.ok) throw new Error(`the main thread sent an invalid log filter: ${text}`);
  return parsed.value;
}

/** Maximum time for which a shutdown waits for a collector, in ms. */
const exportFlushMs = 2_000;

type Command = Exclude<ToWorker, { kind: "query" | "accessLinesWritten" }>;

async function execute(command: Command): Promise<void> {
  switch (command.kind) {
    case "parts":
      // Several batches may arrive at once; each is parsed in its own turn of the event loop.
      await nextTurn();
      parts.add(command.parts);
      return;
    case "apply": {
      parts.remove(command.removed);
      const failures = await dataPlane.apply(await runInSlices(parts.assemble(command.frame)));
      if (generation === 0) collectGarbage();
      generation = command.frame.generation;
      send({ kind: "applied", id: command.id, failures });
      return;
    }
    case "leave":
      dataPlane.leave();
      return;
    case "drain":
      await dataPlane.drain(command.withinMs);
      await Promise.all(exporters.map((each) => each.close(exportFlushMs)));
      await Promise.all([accessLines.flush(), fileLines?.flush()]);
      send({ kind: "drained" });
      return;
  }
}

/** Reports a failed command. Responds to it too, because later commands and the sender wait for the response. */
function reportFailedCommand(command: Command, error: unknown): void {
  log.error({ err: error, command: command.kind }, "a command of the main thread failed");
  const message = `worker ${start.worker} cannot apply the configuration: ${String(error)}`;
  if (command.kind === "apply") {
    send({ kind: "applied", id: command.id, failures: [{ address: undefined, port: 0, message }] });
  }
  if (command.kind === "drain") send({ kind: "drained" });
}

// Commands are executed one after the other, because snapshots must not overtake each other. Queries do not wait for
// commands, so that they work while a worker drains.
let lastCommand = Promise.resolve();
main.on("message", (message: ToWorker) => {
  if (message.kind === "query") {
    send({ kind: "result", id: message.id, result: handleQuery(handlers, message) });
  } else if (message.kind === "accessLinesWritten") {
    if (message.lost > 0) metrics.logLinesDropped(message.lost);
    accessFile?.written();
  } else {
    lastCommand = lastCommand
      .then(() => execute(message))
      .catch((error: unknown) => reportFailedCommand(message, error));
  }
});
