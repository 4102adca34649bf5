/**
 * The parts that one thread needs to decide calls: configuration, limiter, store, gRPC server and health. The main
 * thread always has one. With one worker it serves gRPC itself; with several, the workers serve gRPC and the main
 * thread uses its own for `/json`.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { resumeCompilers } from "@gatewayproxy/runtime/compilers";
import type { ExportCounts } from "@gatewayproxy/runtime/export-observer";
import type { Logger, Logs } from "@gatewayproxy/runtime/log";
import type { HistogramKind } from "@gatewayproxy/runtime/metric-families";
import type { ObservedSpan } from "@gatewayproxy/runtime/metrics";
import { redactText } from "@gatewayproxy/runtime/redaction";
import type { ConfigUpdate } from "../config/config-source.ts";
import { runInSlices } from "../config/run-in-slices.ts";
import { LiveConfig } from "../config/live-config.ts";
import { combineDomains } from "../config/combined-source.ts";
import { readXdsConfig } from "../config/xds/xds-config.ts";
import { type CounterTarget, counterChanges } from "../limiter/counter-changes.ts";
import { domainKeyPrefixes, type KeyOptions } from "../limiter/keys.ts";
import { Limiter } from "../limiter/limiter.ts";
import { OverLimitCache } from "../limiter/over-limit-cache.ts";
import { CallTimes } from "../metrics/call-times.ts";
import { type StatsSnapshot, takeStats } from "../metrics/stats-snapshot.ts";
import { createRateLimitService, onFirstCall, type RateLimitService } from "../service.ts";
import type { ServiceSettings } from "../settings.ts";
import { portPart } from "../settings/server-settings.ts";
import { withinOpenFiles } from "@gatewayproxy/runtime/open-files";
import { RateLimitStats } from "../stats.ts";
import { maxTextBytes } from "../store/counter-table.ts";
import { MemoryTables, type StoreMemory } from "../store/memory-tables.ts";
import type { CounterAccess, CounterAudit } from "../transport/debug/counter-routes.ts";
import { GrpcServer, type ListenAddress } from "@gatewayproxy/grpc/server/grpc-server";
import { healthMethods } from "@gatewayproxy/grpc/server/health-service";
import { infoMethod } from "../transport/grpc/info-service.ts";
import { readVersion } from "@gatewayproxy/runtime/version";
import type { GrpcMethod } from "@gatewayproxy/grpc/server/method";
import { describedFiles } from "../transport/grpc/described-files.ts";
import { rateLimitMethod } from "../transport/grpc/rate-limit-method.ts";
import { reflectionMethods } from "@gatewayproxy/grpc/server/reflection-service";
import { ServerTls } from "@gatewayproxy/grpc/server/server-tls";
import { timedMethod } from "@gatewayproxy/grpc/server/timed-method";
import type { HttpRoute } from "../transport/http/http-server.ts";
import { healthServiceNames, ServingStatus } from "../transport/serving-status.ts";
import { CurrentTrace, type TraceFields } from "../tracing/current-trace.ts";
import type { ServiceTracing } from "../tracing/service-tracing.ts";
import { tracedMethod } from "../tracing/traced-method.ts";
import { tracedService } from "../tracing/traced-service.ts";
import { tracedStore } from "../tracing/traced-store.ts";
import { loggedService } from "./logged-service.ts";
import { type OpenedStore, openStore } from "./open-store.ts";
import { tracedRoute } from "./traced-route.ts";

/** The settings of the process, and what all of its threads share. */
export interface CallThreadOptions {
  /** The settings, equal in all threads. */
  readonly settings: ServiceSettings;
  /** Memory of the counters, shared by all threads; undefined: the settings never count in memory. */
  readonly counterMemory: StoreMemory | undefined;
  /** Shared memory in which the over-limit caches of all threads count refunds. */
  readonly refunds: Int32Array;
  /** 0 for the main thread; workers count from 1. */
  readonly thread: number;
  /** The time of windows, and of health checks each 250 ms. */
  readonly clock: Clock;
  /** Creates the loggers of the thread. */
  readonly logs: Logs;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
  /** The spans of calls; undefined: none are exported. */
  readonly tracing: ServiceTracing | undefined;
  /** What became of the exported lines of the thread; undefined: none are exported. */
  readonly exportedLines: Readonly<ExportCounts> | undefined;
}

/** Maximum time for which a shutdown waits for a collector, in ms. */
const spanFlushMs = 2_000;

/** Interval between health checks of the store. */
const healthIntervalMs = 250;

/** What the store of a thread shares with it. */
interface StoreParts {
  readonly opened: OpenedStore;
  readonly stats: RateLimitStats;
  /** Ends the attempts to connect. */
  readonly closing: AbortController;
  readonly trace: CurrentTrace;
}

/**
 * Decides the calls of one thread. `open` creates it, `applyConfig` or `applyPostedConfig` sets its configuration,
 * `listen` opens its port, and `close` ends it.
 */
export class CallThread {
  readonly service: RateLimitService;
  readonly status = new ServingStatus(false);
  /** As `OpenedStore.connected`. */
  readonly connected: Promise<unknown>;

  readonly #options: CallThreadOptions;
  readonly #log: Logger;
  readonly #stats: RateLimitStats;
  readonly #config: LiveConfig;
  readonly #callTimes: CallTimes;
  readonly #store: OpenedStore["store"];
  readonly #trace: CurrentTrace;
  readonly #closing: AbortController;
  #overLimitCache: OverLimitCache | undefined;
  /** The configurations that were received, processed one after the other. Never rejects. */
  #configs: Promise<unknown> = Promise.resolve();
  #grpc: GrpcServer | undefined;
  #tls: ServerTls | undefined;
  #healthTimer: Timer | undefined;
  #wasStoreHealthy: boolean | undefined;

  private constructor(options: CallThreadOptions, { opened, stats, closing, trace }: StoreParts) {
    const { settings, clock, logs } = options;
    this.#options = options;
    this.#trace = trace;
    this.#log = logs.logger("ratelimit::grpc");
    this.#stats = stats;
    this.#closing = closing;
    // Every thread applies every configuration, but only one counts it.
    this.#config = new LiveConfig(
      options.thread === 0 ? this.#stats : new RateLimitStats({ nearLimitRatio: 1 }),
      clock,
    );
    this.#callTimes = new CallTimes(settings.stats.callTimeBounds);
    const { tracing } = options;
    this.#store = tracing === undefined ? opened.store : tracedStore(opened.store, settings.store.kind, tracing);
    this.connected = opened.connected;
    const service = createRateLimitService({
      limiter: this.#createLimiter(this.#store),
      config: this.#config,
      stats: this.#stats,
      clock,
      failsOpen: settings.store.kind !== "memory" && settings.store.failureMode === "open",
    });
    const traced = tracing === undefined ? service : tracedService(service, tracing);
    const logged = loggedService(traced, this.#log, clock, this.#trace);
    // Without calls no function is worth compiling, and TurboFan keeps some 6 MiB once it has worked.
    this.service = onFirstCall(logged, resumeCompilers);
    this.#watchHealth();
  }

  /** Starts to connect to the store. Rejects when a certificate for it cannot be read. */
  static async open(options: CallThreadOptions): Promise<CallThread> {
    const { settings, counterMemory, thread, clock, random, logs } = options;
    const { nearLimitRatio, maxMetricSeries } = settings.values;
    const stats = new RateLimitStats({ nearLimitRatio, maxSeries: maxMetricSeries });
    const closing = new AbortController();
    const trace = options.tracing?.current ?? new CurrentTrace();
    const log = logs.logger("ratelimit::store");
    const opened = await openStore({
      settings: settings.store,
      // Owners of locks are numbered from 1.
      counters: counterMemory && new MemoryTables(counterMemory, thread + 1),
      clock,
      random,
      log,
      onDegraded() {
        log.debug({ ...trace.fields }, "call counted in memory, because the store is unavailable");
        stats.service.degraded++;
      },
      signal: closing.signal,
    });
    return new CallThread(options, { opened, stats, closing, trace });
  }

  /** The configuration in use and the status of its load. */
  get config(): LiveConfig {
    return this.#config;
  }

  applyConfig(update: ConfigUpdate): void {
    const { tracing, thread } = this.#options;
    // Every thread applies every configuration, but only one has a span for it.
    if (tracing === undefined || thread !== 0) this.#config.apply(update);
    else tracing.load(update, () => this.#config.apply(update));
    const log = this.#options.logs.logger("ratelimit::config");
    log.debug(
      { domains: update.config?.domains.size, files: update.parts.length },
      "configuration applied by a thread",
    );
    this.#updateHealth();
  }

  /** Applies a configuration that the main thread posted, after all earlier ones. Parses xDS bytes in slices. */
  applyPostedConfig(update: ConfigUpdate): void {
    const { xds, files } = update;
    this.#configs = this.#configs.then(async () => {
      if (xds === undefined) {
        this.applyConfig(update);
        return;
      }
      const read = await runInSlices(readXdsConfig(xds), this.#options.clock);
      const config = files === undefined ? read.config : combineDomains(files, read.config);
      this.applyConfig({ ...update, ...(config === undefined ? {} : { config }) });
    });
  }

  /** Returns the counts of this thread. @param histograms native ones are kept from now on. */
  takeStats(histograms: HistogramKind): StatsSnapshot {
    if (histograms === "native") this.#callTimes.keepNative();
    const cache = this.#overLimitCache?.counts;
    this.#countExports();
    const [pools = [], commands = []] = [this.#store.connections?.(), this.#store.commands?.()];
    return takeStats(this.#stats, this.#callTimes, this.#grpc?.connections ?? 0, { cache, pools, commands });
  }

  #countExports(): void {
    const { tracing, exportedLines: lines } = this.#options;
    Object.assign(this.#stats.service, {
      spansExported: tracing?.spans.exported ?? 0,
      spansFailed: tracing?.spans.failed ?? 0,
      spansDropped: tracing?.spans.dropped ?? 0,
      logRecordsExported: lines?.exported ?? 0,
      logRecordsFailed: lines?.failed ?? 0,
      logRecordsDropped: lines?.dropped ?? 0,
    });
  }

  /** The counters, for operators. Each change has a line in the log, and counts. */
  readonly counters: CounterAccess = {
    list: () => this.#store.liveCounters?.(),
    change: (target, count) => this.#changeCounters(target, count),
    deleteAll: (domain) => this.#deleteCounters(domain),
    onChange: (audit) => this.#recordChange(audit),
  };

  async #changeCounters(target: CounterTarget, count: number): Promise<number | string> {
    const nowMs = this.#options.clock.nowMs();
    const changes = counterChanges(this.#config.current, target, count, { ...this.#keyOptions(), nowMs });
    if (typeof changes === "string") return changes;
    // As for a refund: results of the store from before the change are not used after it.
    this.#overLimitCache?.countRefund();
    const changed = await this.#store.change(changes);
    this.#overLimitCache?.countRefund();
    return changed;
  }

  #deleteCounters(domain: string | undefined): number | string | undefined {
    const prefixes = domain === undefined ? [""] : domainKeyPrefixes(this.#keyOptions(), domain);
    if (prefixes.some((prefix) => Buffer.byteLength(prefix) > maxTextBytes)) {
      return `the domain is too long to find its counters; with CACHE_KEY_PREFIX it may have ${maxTextBytes - 2} bytes`;
    }
    const deleted = this.#store.deleteByPrefix?.(prefixes);
    this.#overLimitCache?.countRefund();
    return deleted;
  }

  /** The level is that of problems, because `/bin/ratelimit` logs nothing less by default. */
  #recordChange(audit: CounterAudit): void {
    const { operation, counters, ...fields } = audit;
    const log = this.#options.logs.logger("ratelimit::store");
    const shown = { ...fields, ...(audit.domain === undefined ? {} : { domain: redactText(audit.domain) }) };
    if (operation === "set") {
      this.#stats.service.countersSet += counters;
      log.warn({ ...shown, counters }, "counters set by an operator");
    } else {
      this.#stats.service.countersDeleted += counters;
      log.warn({ ...shown, counters }, "counters deleted by an operator");
    }
  }

  /**
   * Opens the gRPC server. Resolves with its port or path; rejects when the address cannot be bound or a certificate is
   * invalid.
   */
  async listen(address: ListenAddress): Promise<number | string> {
    const { settings, clock, random } = this.#options;
    const { grpcMaxConnectionAge: ageMs, grpcMaxConnectionAgeGrace: graceMs, workers } = settings.values;
    await this.#configs;
    this.#tls = this.#openTls();
    this.#grpc = new GrpcServer({
      methods: this.#methods(),
      maxMessageBytes: settings.values.maxCallBytes,
      // The setting is for the process; each worker gets its share.
      maxConnectionMemory: Math.ceil(settings.values.maxConnectionMemory / workers),
      maxConnections: Math.ceil(withinOpenFiles(settings.values.maxConnections, portPart) / workers),
      clock,
      random,
      onError: (error) => this.#log.error({ ...this.traceFieldsOf(error), err: error }, "internal error in a call"),
      // Errors of clients are logged at debug level only, because operators cannot act on them.
      onClientError: (error) => this.#log.debug({ err: error }, "client error"),
      ...(this.#tls === undefined ? {} : { tls: this.#tls }),
      ...(ageMs === 0 ? {} : { maxConnectionAgeMs: ageMs, maxConnectionAgeGraceMs: graceMs }),
    });
    const opened = await this.#grpc.listen(address);
    this.#log.debug({ address: opened, tls: this.#tls !== undefined }, "grpc server opened");
    return opened;
  }

  /** Returns a route of the HTTP port with the span of each request. */
  traced(path: string, route: HttpRoute): HttpRoute {
    return tracedRoute(path, route, this.#options.tracing, this.#trace, this.#log.isLevelEnabled("debug"));
  }

  /** The fields for a log line about a response or an error of a call; none if its trace is not known. */
  traceFieldsOf(outcome: unknown): TraceFields {
    return this.#trace.fieldsOf(outcome);
  }

  /** Reports "not serving" from now on. Calls are still decided. */
  withdraw(): void {
    this.#closing.abort();
    this.#healthTimer?.cancel();
    this.status.set(false);
  }

  /** Accepts no new connections and waits for the calls in progress, for `graceMs` at most. */
  async close(graceMs: number): Promise<void> {
    this.withdraw();
    await this.#grpc?.close(graceMs);
    await this.#options.tracing?.close(spanFlushMs);
    this.#tls?.close();
    await this.#store.close();
  }

  #keyOptions(): KeyOptions {
    const { store, values } = this.#options.settings;
    return {
      cacheKeyPrefix: values.cacheKeyPrefix ?? "",
      keyForm: store.kind === "memory" ? "escaped" : values.redisKeyForm,
    };
  }

  #createLimiter(store: OpenedStore["store"]): Limiter {
    const { settings, refunds } = this.#options;
    const { values, headers } = settings;
    const cacheBytes = Math.floor(values.localCacheSizeInBytes / values.workers);
    if (cacheBytes > 0) this.#overLimitCache = new OverLimitCache(cacheBytes, refunds);
    return new Limiter({
      store,
      stats: this.#stats,
      ...this.#keyOptions(),
      ...(this.#overLimitCache === undefined ? {} : { overLimitCache: this.#overLimitCache }),
      stopsAtOverLimit: values.stopAtOverLimit,
      strictZeroHit: values.strictZeroHit,
      shadowMode: values.shadowMode,
      quotaMode: values.quotaMode,
      headers,
      dynamicMetadata: values.responseDynamicMetadata,
    });
  }

  #methods(): Map<string, GrpcMethod> {
    const { settings, clock, tracing } = this.#options;
    const [path, method] = rateLimitMethod(this.service, settings.bounds);
    const observe =
      tracing === undefined
        ? (milliseconds: number): void => this.#callTimes.observe(milliseconds)
        : (milliseconds: number): void => this.#callTimes.observe(milliseconds, this.#exportedSpan());
    const timed = settings.values.disableStats ? method : timedMethod(method, clock, observe);
    const traced = tracedMethod(path, timed, tracing, this.#trace, this.#log.isLevelEnabled("debug"));
    return new Map<string, GrpcMethod>([
      [path, traced],
      ...healthMethods(this.status, healthServiceNames),
      infoMethod(readVersion(new URL("../../package.json", import.meta.url))),
      ...reflectionMethods(describedFiles),
    ]);
  }

  /** The span of the current call; undefined if it is not exported. */
  #exportedSpan(): ObservedSpan | undefined {
    const call = this.#trace.current;
    if (call?.attributes === undefined) return undefined;
    return { traceId: call.traceId, spanId: call.spanId, atMs: this.#options.clock.nowMs() };
  }

  #openTls(): ServerTls | undefined {
    const { settings, clock } = this.#options;
    const { values } = settings;
    if (!values.grpcServerUseTls) return undefined;
    const { grpcServerTlsCert: certFile, grpcServerTlsKey: keyFile } = values;
    if (certFile === undefined || keyFile === undefined) {
      throw new Error("GRPC_SERVER_USE_TLS needs GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY");
    }
    const files = {
      certFile,
      keyFile,
      ...(values.grpcClientTlsCaCert === undefined ? {} : { clientCaFile: values.grpcClientTlsCaCert }),
      ...(values.grpcClientTlsSan === undefined ? {} : { clientSan: values.grpcClientTlsSan }),
    };
    return new ServerTls(files, clock, (error) =>
      this.#log.error({ err: error }, "new certificate cannot be used; the previous one stays in use"),
    );
  }

  #watchHealth(): void {
    this.#updateHealth();
    this.#healthTimer = this.#options.clock.setTimer(healthIntervalMs, () => this.#watchHealth());
  }

  #updateHealth(): void {
    const { store, values } = this.#options.settings;
    const { healthyWithAtLeastOneConfigLoaded: needsDomains, forceStartWithoutInitialConfig } = values;
    const { redisHealthCheckActiveConnection: needsStore } = values;
    const respondsWithoutStore = store.kind !== "memory" && (store.failureMode !== "error" || !needsStore);
    const isStoreHealthy = this.#store.isHealthy();
    if (isStoreHealthy !== this.#wasStoreHealthy) {
      const log = this.#options.logs.logger("ratelimit::store");
      log.debug({ store: store.kind }, isStoreHealthy ? "store responds" : "store does not respond");
    }
    this.#wasStoreHealthy = isStoreHealthy;
    // Without a configuration every call fails, unless the settings allow a start without one.
    const isLoaded = forceStartWithoutInitialConfig || this.#config.current !== undefined;
    const isReady = isLoaded && (respondsWithoutStore || isStoreHealthy) && (!needsDomains || this.#config.hasDomains);
    this.status.set(isReady && !this.#closing.signal.aborted);
  }
}
