/**
 * The whole service: configuration, the threads that decide calls, the HTTP and debug servers, the metric sinks, and
 * the shutdown. All parts are created and connected here.
 */
import type { IncomingMessage } from "node:http";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { ExportCounts } from "@gatewayproxy/runtime/export-observer";
import { type ShutdownOutcome, type ShutdownStep, shutDown } from "@gatewayproxy/runtime/lifecycle";
import { describeListenError } from "@gatewayproxy/runtime/listen-error";
import { LineLimit } from "@gatewayproxy/runtime/line-limit";
import type { Logger, Logs } from "@gatewayproxy/runtime/log";
import { openMetricExport } from "@gatewayproxy/runtime/metric-export";
import type { MetricExportSettings } from "@gatewayproxy/runtime/metric-export-settings";
import { readVersion } from "@gatewayproxy/runtime/version";
import type { HistogramKind } from "@gatewayproxy/runtime/metric-families";
import { metricsPage } from "@gatewayproxy/runtime/metrics-page";
import { watchProcess } from "@gatewayproxy/runtime/process-metrics";
import { type Problem, renderProblem, type Result } from "@gatewayproxy/runtime/problem";
import { redactHeaders, redactPath, redactText } from "@gatewayproxy/runtime/redaction";
import { readHeapSamples } from "@gatewayproxy/runtime/heap-sampling";
import { throttle } from "@gatewayproxy/runtime/throttle";
import { Profiler } from "@gatewayproxy/runtime/profiler";
import { socketAddress } from "@gatewayproxy/runtime/setting-kinds";
import { removeStaleSocket } from "@gatewayproxy/runtime/socket-file";
import type { ConfigUpdate } from "../config/config-source.ts";
import { mergeStats, type StatsSnapshot } from "../metrics/stats-snapshot.ts";
import type { Mogrifier, TaggedName } from "../metrics/mogrifiers.ts";
import type { MetricMapper, PrometheusMapping } from "../metrics/prometheus-mapping.ts";
import { dogStatsdLine } from "../metrics/statsd-lines.ts";
import { StatsdSink } from "../metrics/statsd-sink.ts";
import type { ServiceSettings } from "../settings.ts";
import { portPart } from "../settings/server-settings.ts";
import { withinOpenFiles } from "@gatewayproxy/runtime/open-files";
import { countsInMemory } from "../settings/read-store-settings.ts";
import { createStoreMemory, MemoryTables } from "../store/memory-tables.ts";
import type { TraceFields } from "../tracing/current-trace.ts";
import { debugRoutes, type DebugView, metricsResponse } from "../transport/debug/debug-routes.ts";
import { debugGuard } from "../transport/debug/debug-guard.ts";
import { type HttpRoute, HttpServer, type HttpServerOptions } from "../transport/http/http-server.ts";
import { callPath, serviceRoutes } from "../transport/http/service-routes.ts";
import { CallThread, type CallThreadOptions } from "./call-thread.ts";
import { ConfigLog } from "./config-log.ts";
import { ServiceMetrics } from "./service-metrics.ts";
import { openServiceTracing } from "./open-service-tracing.ts";
import { createConfigSource } from "./open-config-source.ts";
import { WorkerPool } from "./worker-pool.ts";

/** The settings of a process, its clock and its loggers. */
export interface RateLimitProcessOptions {
  /** The settings, read once. */
  readonly settings: ServiceSettings;
  /** Creates the loggers of the main thread. */
  readonly logs: Logs;
  /** The source of all times of the process. */
  readonly clock: Clock;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** What became of the exported lines of the main thread; undefined: none are exported. */
  readonly exportedLines: Readonly<ExportCounts> | undefined;
  /** Called with a problem of an exporter of spans. */
  readonly onExportProblem: (message: string) => void;
  /** Called with the reason when the process cannot continue. The caller stops the process. */
  readonly onFatal: (error: unknown) => void;
}

/** The addresses on which the service listens. */
export interface ServiceAddresses {
  /** Port, or path of the Unix socket. */
  readonly grpc: number | string;
  readonly http: number;
  readonly debug: number;
}

/** Time for calls in progress at shutdown, after the drain delay, in ms. */
const closeGraceMs = 15_000;

/** Maximum time for which a shutdown waits for a collector of metrics, in ms. */
const metricFlushMs = 2_000;

/** The memory that all threads of the service share. */
type ThreadMemory = Pick<CallThreadOptions, "counterMemory" | "refunds">;

/** A running service. `start` creates it and `stop` ends it. */
export class RateLimitProcess {
  readonly #options: RateLimitProcessOptions;
  readonly #counters: MemoryTables | undefined;
  readonly #calls: CallThread;
  readonly #pool: WorkerPool | undefined;
  /** The steps that end what was started, in the order of the shutdown. */
  readonly #shutdownSteps: ShutdownStep[] = [];
  #addresses: ServiceAddresses = { grpc: 0, http: 0, debug: 0 };

  private constructor(options: RateLimitProcessOptions, shared: ThreadMemory, calls: CallThread) {
    const { settings, logs, clock } = options;
    this.#options = options;
    this.#counters = shared.counterMemory && new MemoryTables(shared.counterMemory, mainOwner);
    this.#calls = calls;
    this.#calls.connected.catch(options.onFatal);
    if (settings.values.workers > 1) {
      this.#pool = new WorkerPool({
        workers: settings.values.workers,
        start: { settings, ...shared },
        host: settings.values.grpcHost,
        port: settings.values.grpcPort,
        counters: this.#counters,
        clock,
        log: logs.logger("ratelimit::workers"),
      });
    }
  }

  /**
   * Starts everything, and resolves when the service is ready. After a failure it stops what was started, and rejects.
   */
  static async start(options: RateLimitProcessOptions): Promise<Result<RateLimitProcess>> {
    const started: RateLimitProcess[] = [];
    try {
      const { settings, logs, clock, random } = options;
      const { onExportProblem, exportedLines } = options;
      const { tracing: tracingSettings } = settings.telemetry;
      const log = logs.logger("ratelimit::tracing");
      const tracing = tracingSettings && (await openServiceTracing(tracingSettings, log, onExportProblem));
      const shared = {
        counterMemory: countsInMemory(settings.store) ? createStoreMemory(settings.store.maxCounters) : undefined,
        refunds: new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)),
      };
      const calls = await CallThread.open({
        settings,
        ...shared,
        thread: 0,
        clock,
        logs,
        random,
        tracing,
        exportedLines,
      });
      const service = new RateLimitProcess(options, shared, calls);
      started.push(service);
      await service.#startAll();
      return { ok: true, value: service };
    } catch (error) {
      for (const service of started) await service.stop();
      return { ok: false, problems: error instanceof StartError ? error.problems : [{ message: String(error) }] };
    }
  }

  get addresses(): ServiceAddresses {
    return this.#addresses;
  }

  /**
   * Stops the service: reports "not serving", waits for the drain delay, then ends what is in progress. Takes a bounded
   * time.
   */
  stop(): Promise<ShutdownOutcome> {
    const { settings, clock, logs } = this.#options;
    const log = logs.logger("ratelimit::lifecycle");
    return shutDown({
      steps: this.#shutdownSteps,
      deadlineMs: settings.values.shutdownDrainDelay + closeGraceMs + 5_000,
      clock,
      onStep: (step, durationMs) => log.debug({ step, durationMs }, "step of the shutdown ended"),
      onError: (step, error) => log.error({ step, err: error }, "a step of the shutdown failed"),
    });
  }

  async #startAll(): Promise<void> {
    this.#shutdownSteps.push({ name: "close calls", run: () => this.#closeCalls() });
    await this.#startConfig();
    const { values, bounds } = this.#options.settings;
    const routes = serviceRoutes(this.#calls.service, this.#calls.status, bounds).map(
      ([path, route]): [string, HttpRoute] => [path, path === callPath ? this.#calls.traced(path, route) : route],
    );
    const problems: Problem[] = [];
    const grpc = await openOrRecord(this.#listen(), problems);
    const http = await openOrRecord(this.#openHttp("PORT", values.host, values.port, routes), problems);
    const debug = await openOrRecord(this.#startDebugServer(), problems);
    if (grpc === undefined || http === undefined || debug === undefined) throw new StartError(problems);
    this.#addresses = { grpc, http, debug };
    this.#shutdownSteps.unshift({ name: "report not serving", run: (signal) => this.#drain(signal) });
  }

  /** Loads the first configuration before any server listens, unless the settings say not to wait for it. */
  async #startConfig(): Promise<void> {
    const { settings, logs, clock, random } = this.#options;
    const log = logs.logger("ratelimit::config");
    const source = await createConfigSource(settings, { clock, random, log });
    const { promise: firstUpdate, resolve } = Promise.withResolvers<ConfigUpdate>();
    const configLog = new ConfigLog(log, clock);
    source.start((update: ConfigUpdate) => {
      configLog.logLoad(update);
      this.#calls.applyConfig(update);
      this.#pool?.postConfig(update);
      resolve(update);
    });
    const close = () => {
      source.close();
      configLog.close();
    };
    this.#shutdownSteps.push({ name: "close the configuration", run: close });
    if (settings.values.forceStartWithoutInitialConfig) return;
    const { config, parts, problems } = await firstUpdate;
    // Our defaults wait for a folder that does not exist yet; envoyproxy/ratelimit exits.
    if (settings.defaults === "reference" && config === undefined && parts.length === 0) {
      throw startError("RUNTIME_ROOT", problems.map(({ message }) => message).join("; "));
    }
  }

  async #listen(): Promise<number | string> {
    const { grpcUds: path, grpcHost: host, grpcPort: port, workers } = this.#options.settings.values;
    if (path !== undefined && workers > 1) {
      throw startError("GRPC_UDS", "a unix socket has one listener; set WORKERS=1 with it");
    }
    try {
      if (this.#pool !== undefined) return await this.#pool.listen();
      if (path === undefined) return await this.#calls.listen({ kind: "tcp", host, port });
      await removeStaleSocket(path);
      return await this.#calls.listen({ kind: "unix", path });
    } catch (error) {
      throw startError(path === undefined ? "GRPC_PORT" : "GRPC_UDS", describeListenError(error));
    }
  }

  /** Opens the debug server and the metric sinks that the settings name. Resolves with the debug port. */
  async #startDebugServer(): Promise<number> {
    const { settings, clock } = this.#options;
    const { values } = settings;
    const { prometheusMapping: mapping } = settings.stats;
    const metrics = new ServiceMetrics({
      collect: (histograms) => this.#collect(histograms),
      evictedCounters: () => this.#counters?.evictions ?? 0,
      process: watchProcess(),
      extraTags: values.extraTags ?? new Map(),
      timesInMilliseconds: values.prometheusResponseTimeAsMilliseconds,
      callTimeBounds: settings.stats.callTimeBounds,
      ...(mapping === undefined ? {} : { mapper: await loadMetricMapper(mapping) }),
    });
    const disabled = "stats are disabled (DISABLE_STATS)\n";
    const page = values.disableStats
      ? () => Promise.resolve({ contentType: "text/plain", body: disabled })
      : metricsPage((histograms) => metrics.families(histograms), clock);
    const routes = debugRoutes({
      configStatus: () => this.#calls.config.status,
      counters: this.#calls.counters,
      stats: values.disableStats ? () => Promise.resolve(disabled) : throttle(() => metrics.plain(), clock),
      metrics: page,
      profiler: new Profiler(clock, () => this.#pool?.threads ?? []),
      heapSamples: async () => {
        const workers = (await this.#pool?.collectHeapSamples()) ?? [];
        return [{ thread: "main", json: readHeapSamples() }, ...workers];
      },
    });
    const hosts = (values.debugAllowedHosts ?? "").split(",").map((host) => host.trim().toLowerCase());
    const guard = debugGuard(hosts.filter((host) => host !== ""));
    const problems: Problem[] = [];
    const open = this.#openHttp("DEBUG_PORT", values.debugHost, values.debugPort, routes, guard);
    const debug = await openOrRecord(open, problems);
    if (!values.disableStats && values.usePrometheus) await openOrRecord(this.#openPrometheus(page), problems);
    if (debug === undefined || problems.length > 0) throw new StartError(problems);
    if (values.disableStats) return debug;
    if (settings.stats.sink !== undefined) await this.#openStatsd(settings.stats.sink);
    if (settings.telemetry.metricExport !== undefined) {
      await this.#exportMetrics(settings.telemetry.metricExport, metrics);
    }
    return debug;
  }

  async #openPrometheus(page: DebugView["metrics"]): Promise<void> {
    const { prometheusAddr, prometheusPath } = this.#options.settings.values;
    const address = socketAddress.parse(prometheusAddr);
    if (address === undefined) throw startError("PROMETHEUS_ADDR", `${prometheusAddr} is not HOST:PORT or :PORT`);
    const route: HttpRoute = (request) => metricsResponse(page, request);
    await this.#openHttp("PROMETHEUS_ADDR", address.host, address.port, [[prometheusPath, route]]);
  }

  async #exportMetrics(settings: MetricExportSettings, metrics: ServiceMetrics): Promise<void> {
    const { clock, logs } = this.#options;
    const log = logs.logger("ratelimit::metrics");
    const problems = new LineLimit(clock, 1);
    const opened = await openMetricExport({
      settings,
      scope: { name: "ratelimit-service", version: readVersion(new URL("../../package.json", import.meta.url)) },
      clock,
      collect: () => metrics.families(settings.histograms),
      observer: {
        ended: (outcome, points) => log.debug({ outcome, points }, "export of metrics ended"),
        problem: (error) =>
          problems.log((omitted) => log.warn({ error: redactText(error), omitted }, "metrics cannot be exported")),
      },
    });
    this.#shutdownSteps.unshift({ name: "export the last metrics", run: () => opened.close(metricFlushMs) });
  }

  async #openStatsd(kind: "statsd" | "dogstatsd"): Promise<void> {
    const { settings, clock, logs } = this.#options;
    const { values } = settings;
    const log = logs.logger("ratelimit::statsd");
    let isUnreachable = false;
    const sink = new StatsdSink({
      host: values.statsdHost ?? "localhost",
      port: values.statsdPort,
      // A statsd agent listens for datagrams.
      protocol: kind === "dogstatsd" ? "udp" : values.statsdProtocol,
      ...(kind === "dogstatsd" ? { write: dogStatsdLine(await loadMogrifiers(settings.stats.mogrifiers)) } : {}),
      flushIntervalMs: values.statsFlushInterval,
      extraTags: values.extraTags ?? new Map(),
      clock,
      collect: async () => mergeStats(await this.#collect("classic")),
      onError(error) {
        if (isUnreachable) log.debug({ err: error }, "statsd still cannot be reached");
        else log.warn({ err: error }, "statsd cannot be reached");
        isUnreachable = true;
      },
      onSent(lines) {
        if (isUnreachable) log.info({}, "statsd is reached again");
        isUnreachable = false;
        log.debug({ lines: lines.length }, "metrics sent");
        log.trace({ lines: lines.slice(0, maxTracedLines) }, "lines sent");
      },
    });
    this.#shutdownSteps.unshift({ name: "send the last metrics", run: () => sink.close() });
  }

  async #openHttp(
    setting: string,
    host: string,
    port: number,
    routes: readonly (readonly [string, HttpRoute])[],
    guard?: HttpServerOptions["guard"],
  ): Promise<number> {
    const { clock, logs } = this.#options;
    const log = logs.logger("ratelimit::http");
    const traceOf = (outcome: unknown): TraceFields => this.#calls.traceFieldsOf(outcome);
    const server = new HttpServer({
      routes: new Map(routes),
      clock,
      maxBodyBytes: this.#options.settings.values.maxCallBytes,
      maxConnections: withinOpenFiles(this.#options.settings.values.maxConnections, portPart),
      ...(guard && { guard }),
      onError: (error) => log.error({ ...traceOf(error), err: error }, "internal error in a request"),
      onResponse: log.isLevelEnabled("debug")
        ? (request, response) => logResponse(log, request, response.status, traceOf(response))
        : undefined,
    });
    try {
      const opened = await server.listen(host, port);
      log.debug({ setting, host, port: opened }, "http server opened");
      this.#shutdownSteps.push({ name: `close ${setting}`, run: () => server.close(closeGraceMs) });
      return opened;
    } catch (error) {
      throw startError(setting, describeListenError(error));
    }
  }

  async #collect(histograms: HistogramKind): Promise<readonly StatsSnapshot[]> {
    return [this.#calls.takeStats(histograms), ...((await this.#pool?.collectStats(histograms)) ?? [])];
  }

  /** Waits long enough for a load balancer to notice and to send nothing more. */
  async #drain(signal: AbortSignal): Promise<void> {
    const { clock, settings } = this.#options;
    this.#calls.withdraw();
    this.#pool?.withdraw();
    await new Promise<void>((resolve) => {
      clock.setTimer(settings.values.shutdownDrainDelay, resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  async #closeCalls(): Promise<void> {
    await Promise.all([this.#calls.close(closeGraceMs), this.#pool?.close(closeGraceMs)]);
  }
}

/** The main thread as owner of locks, in the numbering of CallThread. */
const mainOwner = 1;

/** Reports settings with which the service cannot start. */
class StartError extends Error {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems.map(renderProblem).join("; "));
    this.name = "StartError";
    this.problems = problems;
  }
}

function startError(setting: string, message: string): StartError {
  return new StartError([{ path: setting, message }]);
}

/**
 * Awaits `opening`. Adds the problems of a `StartError` to `problems` and resolves with `undefined`, so that the
 * problems of all addresses are reported together.
 */
async function openOrRecord<T>(opening: Promise<T>, problems: Problem[]): Promise<T | undefined> {
  try {
    return await opening;
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    problems.push(...error.problems);
    return undefined;
  }
}

/** Maximum number of limits in the trace log; there may be thousands. */
const maxTracedLines = 100;

function logResponse(
  log: Logger,
  { method = "", url = "", rawHeaders, socket }: IncomingMessage,
  status: number,
  trace: TraceFields,
): void {
  const about = { ...trace, source: socket.remoteAddress, method: redactText(method), path: redactPath(url) };
  log.trace({ ...about, headers: redactHeaders(rawHeaders) }, "request head received");
  log.debug({ ...about, status }, "response sent");
}

/** @returns undefined without rules */
async function loadMogrifiers(rules: readonly Mogrifier[]): Promise<((name: string) => TaggedName) | undefined> {
  return rules.length === 0 ? undefined : (await import("../metrics/mogrifiers.ts")).mogrify(rules);
}

async function loadMetricMapper(mapping: PrometheusMapping): Promise<MetricMapper> {
  return (await import("../metrics/prometheus-mapping.ts")).metricMapper(mapping);
}
