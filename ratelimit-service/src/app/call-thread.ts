/**
 * All that a thread needs to answer calls: configuration, limiter, store, gRPC server, health. The main thread has one,
 * and serves with it alone or, with several workers, leaves gRPC to theirs and keeps its own for `/json`.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger, Logs } from "@gatewayproxy/runtime/log";
import type { ConfigUpdate } from "../config/config-source.ts";
import { inTurns } from "../config/in-turns.ts";
import { LiveConfig } from "../config/live-config.ts";
import { combineDomains } from "../config/combined-source.ts";
import { readXdsConfig } from "../config/xds/xds-config.ts";
import { Limiter } from "../limiter/limiter.ts";
import { OverLimitCache } from "../limiter/over-limit-cache.ts";
import { CallTimes } from "../metrics/call-times.ts";
import { type StatsSnapshot, takeStats } from "../metrics/stats-snapshot.ts";
import { createRateLimitService, type RateLimitService } from "../service.ts";
import type { ServiceSettings } from "../settings.ts";
import { RateLimitStats } from "../stats.ts";
import type { LiveCounter } from "../store/counter-store.ts";
import { CounterTable } from "../store/counter-table.ts";
import { GrpcServer, type ListenAddress } from "../transport/grpc/grpc-server.ts";
import { healthMethods } from "../transport/grpc/health-service.ts";
import type { GrpcMethod } from "../transport/grpc/method.ts";
import { rateLimitMethod } from "../transport/grpc/rate-limit-method.ts";
import { reflectionMethods } from "../transport/grpc/reflection-service.ts";
import { ServerTls } from "../transport/grpc/server-tls.ts";
import { timedMethod } from "../transport/grpc/timed-method.ts";
import { ServingStatus } from "../transport/serving-status.ts";
import { loggedService } from "./logged-service.ts";
import { type OpenedStore, openStore } from "./open-store.ts";

export interface CallThreadOptions {
  readonly settings: ServiceSettings;
  /** Memory of the counters, the same for all threads. */
  readonly counterMemory: SharedArrayBuffer;
  /** As the over-limit caches of all threads count them. */
  readonly refunds: Int32Array;
  /** 0 for the main thread, workers count from 1. */
  readonly thread: number;
  readonly clock: Clock;
  readonly logs: Logs;
  /** 0 ≤ x < 1. */
  readonly random: () => number;
}

/** How often the store is asked for its health. */
const healthIntervalMs = 250;

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
  readonly #closing = new AbortController();
  #overLimitCache: OverLimitCache | undefined;
  /** The configurations that were handed over, one after the other; never rejects. */
  #configs: Promise<unknown> = Promise.resolve();
  #grpc: GrpcServer | undefined;
  #tls: ServerTls | undefined;
  #healthTimer: Timer | undefined;
  #wasStoreHealthy: boolean | undefined;

  /** Begins to connect to the store. Throws when a certificate for it cannot be read. */
  constructor(options: CallThreadOptions) {
    const { settings, clock, logs } = options;
    const { values } = settings;
    this.#options = options;
    this.#log = logs.logger("ratelimit::grpc");
    this.#stats = new RateLimitStats({ nearLimitRatio: values.nearLimitRatio, maxSeries: values.maxMetricSeries });
    // Every thread takes every configuration; it is counted once.
    this.#config = new LiveConfig(
      options.thread === 0 ? this.#stats : new RateLimitStats({ nearLimitRatio: 1 }),
      clock,
    );
    this.#callTimes = new CallTimes(settings.stats.callTimeBounds);
    const opened = this.#openStore(logs);
    this.#store = opened.store;
    this.connected = opened.connected;
    const service = createRateLimitService({
      limiter: this.#createLimiter(opened.store),
      config: this.#config,
      stats: this.#stats,
      clock,
      failsOpen: settings.store.kind !== "memory" && settings.store.failureMode === "open",
    });
    this.service = loggedService(service, this.#log, clock);
    this.#watchHealth();
  }

  /** The configuration in force and how it came. */
  get config(): LiveConfig {
    return this.#config;
  }

  takeConfig(update: ConfigUpdate): void {
    this.#config.take(update);
    const log = this.#options.logs.logger("ratelimit::config");
    log.debug({ domains: update.config?.domains.size, files: update.parts.length }, "configuration taken by a thread");
    this.#updateHealth();
  }

  /** Takes what the main thread handed over; where that is bytes, reads them in turns. In the order of the calls. */
  takeHandedConfig(update: ConfigUpdate): void {
    const { xds, files } = update;
    this.#configs = this.#configs.then(async () => {
      if (xds === undefined) {
        this.takeConfig(update);
        return;
      }
      const read = await inTurns(readXdsConfig(xds), this.#options.clock);
      const config = files === undefined ? read.config : combineDomains(files, read.config);
      this.takeConfig({ ...update, ...(config === undefined ? {} : { config }) });
    });
  }

  /** What this thread has counted. */
  takeStats(): StatsSnapshot {
    const cache = this.#overLimitCache?.counts;
    const [pools = [], commands = []] = [this.#store.connections?.(), this.#store.commands?.()];
    return takeStats(this.#stats, this.#callTimes, this.#grpc?.connections ?? 0, { cache, pools, commands });
  }

  /** `undefined` when the store cannot list its counters. */
  liveCounters(): Iterable<LiveCounter> | undefined {
    return this.#store.liveCounters?.();
  }

  /** Opens the gRPC server; resolves with its port or path, rejects when it cannot be had or a certificate is bad. */
  async listen(address: ListenAddress): Promise<number | string> {
    const { settings, clock, random } = this.#options;
    const { grpcMaxConnectionAge: ageMs, grpcMaxConnectionAgeGrace: graceMs, workers } = settings.values;
    await this.#configs;
    this.#tls = this.#openTls();
    this.#grpc = new GrpcServer({
      methods: this.#methods(),
      maxMessageBytes: settings.values.maxCallBytes,
      // Of the process; each worker has its part.
      maxConnectionMemory: Math.ceil(settings.values.maxConnectionMemory / workers),
      maxConnections: Math.ceil(settings.values.maxConnections / workers),
      clock,
      random,
      onFault: (error) => this.#log.error({ err: error }, "a call failed inside the service"),
      // What a client does wrong is no news for operators.
      onClientFault: (error) => this.#log.debug({ err: error }, "client sent away"),
      ...(this.#tls === undefined ? {} : { tls: this.#tls }),
      ...(ageMs === 0 ? {} : { maxConnectionAgeMs: ageMs, maxConnectionAgeGraceMs: graceMs }),
    });
    const opened = await this.#grpc.listen(address);
    this.#log.debug({ address: opened, tls: this.#tls !== undefined }, "grpc server opened");
    return opened;
  }

  /** Health turns to not serving, for good; calls are still answered. */
  withdraw(): void {
    this.#closing.abort();
    this.#healthTimer?.cancel();
    this.status.set(false);
  }

  /** Takes no new connection and waits for the calls under way, `graceMs` at most. */
  async close(graceMs: number): Promise<void> {
    this.withdraw();
    await this.#grpc?.close(graceMs);
    this.#tls?.close();
    await this.#store.close();
  }

  #openStore(logs: Logs): OpenedStore {
    const { settings, counterMemory, thread, clock, random } = this.#options;
    const log = logs.logger("ratelimit::store");
    return openStore({
      settings: settings.store,
      // An owner is 1 at least.
      counters: new CounterTable(counterMemory, thread + 1),
      clock,
      random,
      log,
      onDegraded: () => {
        log.debug({}, "call counted in memory, since the store is away");
        this.#stats.service.degraded++;
      },
      signal: this.#closing.signal,
    });
  }

  #createLimiter(store: OpenedStore["store"]): Limiter {
    const { settings, refunds } = this.#options;
    const { values, headers } = settings;
    const cacheBytes = Math.floor(values.localCacheSizeInBytes / values.workers);
    if (cacheBytes > 0) this.#overLimitCache = new OverLimitCache(cacheBytes, refunds);
    return new Limiter({
      store,
      stats: this.#stats,
      cacheKeyPrefix: values.cacheKeyPrefix ?? "",
      keyForm: settings.store.kind === "memory" ? "escaped" : values.redisKeyForm,
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
    const { settings, clock } = this.#options;
    const [path, method] = rateLimitMethod(this.service, settings.bounds);
    const timed = timedMethod(method, clock, (milliseconds) => this.#callTimes.observe(milliseconds));
    return new Map<string, GrpcMethod>([
      [path, settings.values.disableStats ? method : timed],
      ...healthMethods(this.status),
      ...reflectionMethods(),
    ]);
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
      this.#log.error({ err: error }, "new certificate cannot be used, the old one stays"),
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
    const answersWithoutStore = store.kind !== "memory" && (store.failureMode !== "error" || !needsStore);
    const isStoreHealthy = this.#store.isHealthy();
    if (isStoreHealthy !== this.#wasStoreHealthy) {
      const log = this.#options.logs.logger("ratelimit::store");
      log.debug({ store: store.kind }, isStoreHealthy ? "store answers" : "store does not answer");
    }
    this.#wasStoreHealthy = isStoreHealthy;
    // Without a configuration every call fails, unless who starts the service says that it may come later.
    const isLoaded = forceStartWithoutInitialConfig || this.#config.current !== undefined;
    const isReady = isLoaded && (answersWithoutStore || isStoreHealthy) && (!needsDomains || this.#config.hasDomains);
    this.status.set(isReady && !this.#closing.signal.aborted);
  }
}
