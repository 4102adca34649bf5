/**
 * The proxy process: the source of configuration, the workers that serve it, the servers for operators, and the
 * shutdown. All parts are created and connected here.
 */
import { fileURLToPath } from "node:url";
import type { ExportCounts } from "@gatewayproxy/runtime/export-observer";
import { exportProblems } from "@gatewayproxy/runtime/export-problems";
import { openMetricExport } from "@gatewayproxy/runtime/metric-export";
import type { MetricExportSettings } from "@gatewayproxy/runtime/metric-export-settings";
import type { LogExportSettings } from "@gatewayproxy/runtime/log-export-settings";
import { openSender } from "@gatewayproxy/runtime/open-sender";
import { serveSender } from "@gatewayproxy/runtime/sender-port";
import type { TracingSettings } from "@gatewayproxy/runtime/tracing-settings";
import { AddressGuard, type AddressRules, unrestricted } from "@gatewayproxy/runtime/address-rules";
import { readBoot } from "@gatewayproxy/runtime/boot-time";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { type MetricTable, SeriesBound } from "@gatewayproxy/runtime/metrics";
import { familiesOf, type HistogramKind, type MetricFamily } from "@gatewayproxy/runtime/metric-families";
import { localPortCount } from "@gatewayproxy/runtime/local-ports";
import { openFileLimit } from "@gatewayproxy/runtime/open-files";
import { metricsPage } from "@gatewayproxy/runtime/metrics-page";
import { watchProcess } from "@gatewayproxy/runtime/process-metrics";
import { Readiness, type ShutdownOutcome, type ShutdownStep, shutDown } from "@gatewayproxy/runtime/lifecycle";
import { describeListenError } from "@gatewayproxy/runtime/listen-error";
import { LineLimit } from "@gatewayproxy/runtime/line-limit";
import type { Logs } from "@gatewayproxy/runtime/log";
import { renderLogFilter } from "@gatewayproxy/runtime/log-filter";
import type { Problem, Result } from "@gatewayproxy/runtime/problem";
import { redactText } from "@gatewayproxy/runtime/redaction";
import type { SocketAddress, UnixAddress } from "@gatewayproxy/runtime/setting-kinds";
import { runInSlices } from "@gatewayproxy/runtime/steps";
import { throttle } from "@gatewayproxy/runtime/throttle";
import { usageOfLimits } from "../admin/limit-usage.ts";
import { openAdminServer } from "../admin/server.ts";
import { readUiFiles } from "../admin/ui-files.ts";
import { CounterTable, createCounters } from "../policy/ratelimit/counter-table.ts";
import { BodyBudget, createBodyMemory } from "../pipeline/body/body-budget.ts";
import { bindName } from "../data-plane/data-plane.ts";
import type { AbandonedResponseSettings } from "../pipeline/attempts/abandoned-responses.ts";
import { clientMemoryOf } from "../listen/client-connections.ts";
import { checkFolder, openDirectorySource } from "../source/directory.ts";
import { metricTableOf } from "../telemetry/metric-table.ts";
import { isUnreadable } from "../translate/policy/policies.ts";
import { ProcessMetrics } from "../telemetry/process-metrics.ts";
import type { RequestRules } from "../listen/request-head.ts";
import { createProviderMemory, ProviderStates } from "../upstream/provider-states.ts";
import type { UpstreamSettings } from "../upstream/upstream-settings.ts";
import { AccessLogFile } from "./access-log-file.ts";
import { accessLogOf } from "./access-log-settings.ts";
import { adminEndpoints } from "./admin.ts";
import { Configuration, type Served, type Validity, type SourcedResources, type Applied } from "./configuration.ts";
import { openKubernetes, type OpenedKubernetes } from "./kubernetes.ts";
import { workerHeapMib } from "./memory-plan.ts";
import type { WorkerTracing } from "./messages.ts";
import { openPageServer, type Page } from "./page-server.ts";
import { SavedCounters } from "./saved-counters.ts";
import { exportsLog, type ProxySettings } from "./settings.ts";
import { type SocketPlan, socketPlan } from "./socket-plan.ts";
import { TraceWatches } from "./trace-watches.ts";
import { WorkerPool, type WorkerPoolStart } from "./worker-pool.ts";

/** The settings and the environment of a proxy process. */
export interface ProxyOptions {
  /** The values of all settings; `proxySettings` defines them. */
  readonly settings: ProxySettings;
  /** The settings of traces; undefined: no spans are exported. */
  readonly tracing: TracingSettings | undefined;
  /** The settings of the export of metrics; undefined: they are only scraped. */
  readonly metricExport: MetricExportSettings | undefined;
  /** Whether metrics of LLM providers have the names of the latest conventions. */
  readonly isLatestGenAi: boolean;
  /** The export of logs; undefined: no records are exported. `settings` says which logs. */
  readonly logExport: LogExportSettings | undefined;
  /** What became of the exported lines of the main thread; undefined: none are exported. */
  readonly exportedLines: Readonly<ExportCounts> | undefined;
  /** Environment variables: KUBECONFIG and those that describe a pod's cluster. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Creates the loggers, and changes their filter. */
  readonly logs: Logs;
  /** The clock of the process. */
  readonly clock: Clock;
  /** Called when the first configuration is served. */
  readonly onReady: () => void;
  /** Called when an operator requests the shutdown. */
  readonly onQuit: () => void;
}

/** The built files of the admin UI. */
const uiDirectory = fileURLToPath(new URL("../../../admin-ui/dist", import.meta.url));

/**
 * The lock owner of the main thread, which reads counters and releases locks of dead workers. Greater than the number
 * of any worker.
 */
const mainOwner = 1_000_000;

/** Time before the end of a shutdown at which relayed connections are closed, in ms. */
const closingMs = 500;
/** Maximum time for which a shutdown waits for a collector of metrics, in ms. */
const metricFlushMs = 2_000;

/** A running proxy process. `start` creates it and `stop` ends it. */
export class Proxy {
  readonly #options: ProxyOptions;
  readonly #readiness = new Readiness(["configuration"]);
  readonly #table: MetricTable;
  readonly #series: SeriesBound;
  /** In Kubernetes mode, once it is open. */
  #cluster: OpenedKubernetes | undefined;
  readonly #metrics: ProcessMetrics;
  readonly #process = watchProcess();
  readonly #pool: WorkerPool;
  readonly #watches = new TraceWatches();
  readonly #counters: CounterTable;
  readonly #counterMemory: SharedArrayBuffer;
  /** Undefined if counters end with the process. */
  readonly #saved: SavedCounters | undefined;
  /** Undefined if no file gets lines of the access log. */
  readonly #accessLogFile: AccessLogFile | undefined;
  readonly #bodies: BodyBudget;
  readonly #providerMemory = createProviderMemory();
  readonly #providers = new ProviderStates(this.#providerMemory, mainOwner);
  readonly #configuration: Configuration;
  #hasServed = false;
  /** Listening addresses of the servers for operators. */
  readonly #operatorAddresses: SocketAddress[] = [];
  /** Checks the addresses of backends; complete when the servers for operators have opened. */
  #addresses = new AddressGuard(unrestricted);
  /** Shutdown steps of everything that was started, run in reverse order. */
  readonly #shutdownSteps: ShutdownStep[] = [];

  private constructor(options: ProxyOptions, metrics: ProcessMetrics, { saved, accessLogFile }: OpenedFiles) {
    const { settings, logs, clock } = options;
    this.#table = metricTableOf(options.isLatestGenAi);
    this.#series = new SeriesBound(settings.maxMetricSeries);
    const { workers } = settings;
    const counters = createCounters(settings.maxCounters, workers, saved?.seed);
    [this.#options, this.#metrics] = [options, metrics];
    [this.#saved, this.#accessLogFile] = [saved, accessLogFile];
    this.#counters = new CounterTable(counters, mainOwner, clock);
    this.#counterMemory = counters;
    const bodies = createBodyMemory(workers);
    const bodyMemoryBytes = settings.maxBodyMemory * 1024 * 1024;
    this.#bodies = new BodyBudget(bodies, 0, bodyMemoryBytes);
    const onExportProblem = exportProblems(logs.logger("proxy::tracing"));
    this.#pool = new WorkerPool({
      workers,
      heapMib: workerHeapMib(workers, process.constrainedMemory(), bodyMemoryBytes),
      start: workerStart(options, { counters, bodies, bodyMemoryBytes, providers: this.#providerMemory }),
      counters: this.#counters,
      bodies: this.#bodies,
      providers: this.#providers,
      clock,
      log: logs.logger("proxy::workers"),
      onRestart: (worker) => {
        this.#metrics.workerRestarted();
        this.#watches.workerDied(worker);
      },
      onBindFailure: () => void this.#configuration.reopen(),
      unclaimedWatches: () => this.#watches.unclaimed(),
      onTraced: (watch, event) => this.#watches.deliver(watch, event),
      appendAccessLines: accessLogFile && ((lines) => accessLogFile.append(lines)),
      serveSender: (transport, port) => serveSender(port, openSender(transport, onExportProblem)),
    });
    this.#shutdownSteps.push({
      name: "drain workers",
      run: (signal) => this.#pool.drain(signal, this.#streamDrainMs()),
    });
    this.#configuration = new Configuration({
      log: logs.logger("proxy::config"),
      clock,
      random: Math.random,
      addressDenial: (host, port) => this.#addresses.denialReasonOfHost(host, port),
      refusedPolicies: settings.refusedPolicies,
      keepsCounters: saved !== undefined,
      readyReplicas: settings.replicas,
      listenAddress: settings.listenAddress,
      pathRules: requestRules(settings).path,
      repeatsProblems: !settings.kubernetes,
      serve: (snapshot) => this.#pool.apply(snapshot),
      onServed: (served) => this.#onServed(served),
      onApplied: (generation, validity) => this.#onApplied(generation, validity),
    });
    this.#shutdownSteps.push({ name: "stop opening addresses", run: () => this.#configuration.close() });
  }

  /**
   * Starts the process. Resolves when the folder is served, and fails if the folder contains nothing to serve. With a
   * cluster, resolves at once, because the cluster may be unavailable at first; readiness reports when it is served.
   * Fails if an address is in use. After a failure, all parts are stopped.
   */
  static async start(options: ProxyOptions): Promise<Result<Proxy>> {
    const metrics = new ProcessMetrics();
    const accessLogFile = await openAccessLogFile(options);
    if (accessLogFile?.ok === false) return accessLogFile;
    const saved = await openSavedCounters(options, metrics);
    if (saved?.ok === false) return saved;
    const proxy = new Proxy(options, metrics, { saved: saved?.value, accessLogFile: accessLogFile?.value });
    proxy.#closeFilesAtEnd();
    const failures = [...(await proxy.#openPages()), ...(await proxy.#openAdmin())];
    await proxy.#exportMetrics();
    const problems = failures.length > 0 ? [...failures, ...(await proxy.#validateSource())] : await proxy.#serve();
    if (problems.length === 0) return { ok: true, value: proxy };
    await proxy.#shutDown([]);
    return { ok: false, problems };
  }

  /** After the workers have counted and logged their last requests. Until then, counters are saved as before. */
  #closeFilesAtEnd(): void {
    const [saved, file] = [this.#saved, this.#accessLogFile];
    if (saved !== undefined) this.#shutdownSteps.unshift({ name: "save counters", run: () => saved.close() });
    if (file !== undefined) this.#shutdownSteps.unshift({ name: "close the access log", run: () => file.close() });
  }

  /** Opens the file of the access log again; does nothing without one. Never rejects. */
  async reopenAccessLog(): Promise<void> {
    await this.#accessLogFile?.reopen();
  }

  /**
   * Shuts down: withdraws readiness and asks clients to close their connections for the drain delay, then accepts no
   * new connections and finishes requests in progress, all within the drain timeout.
   */
  stop(): Promise<ShutdownOutcome> {
    this.#readiness.withdraw("shutting down");
    return this.#shutDown([{ name: "ask clients to close connections", run: (signal) => this.#leave(signal) }]);
  }

  #leave(signal: AbortSignal): Promise<void> {
    const { settings, clock } = this.#options;
    this.#pool.leave();
    return new Promise((resolve) => {
      const timer = clock.setTimer(settings.drainDelay, resolve);
      const skip = (): void => {
        timer.cancel();
        resolve();
      };
      signal.addEventListener("abort", skip, { once: true });
    });
  }

  /** The rest of the drain timeout, without the time to log and count the connections that are closed then. */
  #streamDrainMs(): number {
    const { drainTimeout, drainDelay } = this.#options.settings;
    return Math.max(0, drainTimeout - drainDelay - closingMs);
  }

  /** @param firstSteps Steps before those of `#shutdownSteps`. */
  #shutDown(firstSteps: readonly ShutdownStep[]): Promise<ShutdownOutcome> {
    const { settings, clock, logs } = this.#options;
    const log = logs.logger("proxy::lifecycle");
    return shutDown({
      steps: [...firstSteps, ...this.#shutdownSteps.toReversed()],
      deadlineMs: settings.drainTimeout,
      clock,
      onStep: (step, durationMs) => log.debug({ step, durationMs }, "shutdown step ended"),
      onError: (step, error) => log.error({ step, err: error }, "shutdown step failed"),
    });
  }

  async #openPages(): Promise<readonly Problem[]> {
    const { settings, clock } = this.#options;
    const metrics = metricsPage((histograms) => this.#collectMetrics(histograms), clock);
    const readiness = throttle(() => this.#readinessPage(), clock);
    return [
      ...(await this.#openPage("--readiness-address", settings.readinessAddress, "/healthz/ready", readiness)),
      ...(await this.#openPage("--stats-address", settings.statsAddress, "/metrics", async (accept) => {
        return { status: 200, ...(await metrics(accept)) };
      })),
    ];
  }

  #openPage(
    setting: string,
    address: SocketAddress,
    path: string,
    render: (accept: string | undefined) => Promise<Page>,
  ): Promise<readonly Problem[]> {
    return this.#openServer(setting, path, () => openPageServer(address, path, render));
  }

  /** Exports metrics until the workers have counted their last requests. */
  async #exportMetrics(): Promise<void> {
    const { metricExport: settings, clock, logs } = this.#options;
    if (settings === undefined) return;
    const log = logs.logger("proxy::metrics");
    const problems = new LineLimit(clock, 1);
    const opened = await openMetricExport({
      settings,
      scope: { name: "gateway-proxy", version: settings.resource["service.version"] ?? "" },
      clock,
      collect: () => this.#collectMetrics(settings.histograms),
      observer: {
        ended: (outcome, points) => {
          this.#metrics.metricsExported(outcome);
          log.debug({ outcome, points }, "export of metrics ended");
        },
        problem: (error) =>
          problems.log((omitted) => log.warn({ error: redactText(error), omitted }, "metrics cannot be exported")),
      },
    });
    this.#shutdownSteps.unshift({ name: "export the last metrics", run: () => opened.close(metricFlushMs) });
  }

  #openAdmin(): Promise<readonly Problem[]> {
    const { settings, logs, clock, onQuit: quit } = this.#options;
    const { adminAddress, adminHost = "", adminTokenFile } = settings;
    const adminHostOfAddress = adminAddress === "off" || "path" in adminAddress ? "" : adminAddress.host;
    if (adminAddress === "off") return Promise.resolve([]);
    const [pool, counters, configuration] = [this.#pool, this.#counters, this.#configuration];
    const [counterBytes, watches] = [this.#counterMemory.byteLength, this.#watches];
    const log = logs.logger("proxy::admin");
    return this.#openServer("--admin-address", "the admin server", async () => {
      const server = await openAdminServer({
        address: adminAddress,
        ...(adminTokenFile !== undefined && { tokenFile: adminTokenFile }),
        hosts: [adminHostOfAddress, ...adminHost.split(",")].map((host) => host.trim().toLowerCase()).filter(Boolean),
        endpoints: adminEndpoints({
          settings,
          logs,
          clock,
          pool,
          counters,
          saved: this.#saved,
          providers: this.#providers,
          counterBytes,
          configuration,
          watches,
          onCountersReset: (count) => this.#metrics.countersReset(count),
          quit,
        }),
        log,
        files: readUiFiles(uiDirectory),
      });
      log.info(server.address, "the admin server listens");
      return server;
    });
  }

  /** Opens a server for operators. The shutdown closes these servers last, so that it can be observed. */
  async #openServer(
    setting: string,
    name: string,
    open: () => Promise<{ readonly address: SocketAddress | UnixAddress; close(): Promise<void> }>,
  ): Promise<readonly Problem[]> {
    try {
      const server = await open();
      if (!("path" in server.address)) this.#operatorAddresses.push(server.address);
      this.#shutdownSteps.unshift({ name: `close ${name}`, run: () => server.close() });
      const { address } = server;
      this.#options.logs.logger("proxy::lifecycle").debug({ setting, server: name, address }, "server opened");
      return [];
    } catch (error) {
      return [{ path: setting, message: describeListenError(error) }];
    }
  }

  /** Validates the folder after the start has failed, to report all problems at once. */
  async #validateSource(): Promise<readonly Problem[]> {
    const { configDir } = this.#options.settings;
    return configDir === undefined ? [] : await checkFolder(configDir);
  }

  /** Starts the workers, which need the address rules before they serve. */
  async #serve(): Promise<readonly Problem[]> {
    const rules = addressRules(this.#options.settings, this.#operatorAddresses);
    this.#addresses = new AddressGuard(rules);
    // Without a configuration, workers serve nothing: they load their code while this thread restores the counters.
    this.#pool.open(rules);
    await this.#saved?.start(this.#counterMemory, mainOwner);
    return await this.#openSource();
  }

  async #openSource(): Promise<readonly Problem[]> {
    const { configDir } = this.#options.settings;
    return configDir === undefined ? await this.#openCluster() : await this.#openFolder(configDir);
  }

  /** Does not wait for the objects of the cluster. */
  async #openCluster(): Promise<readonly Problem[]> {
    const { settings, env, logs, clock } = this.#options;
    const log = logs.logger("proxy::config");
    const publish = (sourced: SourcedResources) =>
      this.#configuration.apply(sourced).catch((error: unknown) => {
        log.error({ err: error }, "cannot apply the configuration; the previous one stays in use");
      });
    const opened = await openKubernetes({
      ...{ env, logs, clock, publish },
      gateway: settings.gateway,
      refusedPolicies: settings.refusedPolicies,
      ownPorts: this.#operatorAddresses.map(({ port }) => port),
      allowedAddresses: settings.allowBackendAddress ?? [],
    });
    if (!opened.ok) return opened.problems;
    this.#cluster = opened.value;
    this.#shutdownSteps.push({ name: "close the source", run: () => opened.value.close() });
    return [];
  }

  async #openFolder(directory: string): Promise<readonly Problem[]> {
    let first: Promise<Applied> | undefined;
    const opened = await openDirectorySource({
      directory,
      clock: this.#options.clock,
      onFailure: (error) =>
        this.#options.logs.logger("proxy::config").error({ err: error }, "cannot read the folder; retrying"),
      publish: (manifests) => {
        const applied = this.#configuration.apply(manifests);
        first ??= applied;
      },
    });
    if (!opened.ok) return opened.problems;
    this.#shutdownSteps.push({ name: "close the source", run: () => opened.value.close() });
    const applied = await first;
    return applied === undefined || applied.openBinds === 0 ? nothingToServe(directory, applied) : [];
  }

  #onServed({ openBinds }: Served): void {
    if (openBinds === 0 || this.#hasServed) return;
    this.#hasServed = true;
    this.#readiness.meet("configuration");
    const { logs, settings, onReady } = this.#options;
    logs.logger("proxy::lifecycle").info({ configDir: settings.configDir, workers: settings.workers }, "ready");
    onReady();
  }

  #onApplied(generation: number, validity: Validity): void {
    this.#metrics.configServes(generation);
    if (validity === "valid") this.#metrics.configAccepted(this.#options.clock.nowMs());
    if (validity === "rejected") this.#metrics.configRejected();
  }

  #readinessPage(): Promise<Page> {
    const status = this.#readiness.isReady ? 200 : 503;
    // An address in use must not affect the readiness of the other listeners.
    const closed = this.#configuration
      .state()
      .failures.map(({ message, ...bind }) => `cannot open ${bindName(bind)}: ${message}; trying again`);
    const body = [this.#readiness.describe(), ...closed, ...this.#describeInvalidPolicies()]
      .map((line) => `${line}\n`)
      .join("");
    return Promise.resolve({ status, contentType: "text/plain", body });
  }

  /** Describes policies that cannot be read. They do not affect readiness, because other routes are served. */
  #describeInvalidPolicies(): readonly string[] {
    const { resources } = this.#configuration.state();
    const consequence =
      this.#options.settings.refusedPolicies === "Closed"
        ? "its targets respond with 503"
        : "its targets are not limited";
    return resources.ProxyPolicy.filter(isUnreadable).map(
      ({ metadata: { namespace, name } }) => `ProxyPolicy ${namespace}/${name} cannot be read; ${consequence}`,
    );
  }

  /** The metrics of all threads and of the process. */
  async #collectMetrics(histograms: HistogramKind): Promise<readonly MetricFamily[]> {
    this.#metrics.workersServing(this.#pool.size);
    this.#metrics.countersEvicted(this.#counters.evictions);
    this.#metrics.bodyMemory(this.#bodies.heldBytes);
    this.#metrics.watchesFailing(this.#cluster?.failingWatches ?? 0);
    const { snapshot } = this.#configuration.state();
    const { clock, exportedLines } = this.#options;
    if (exportedLines !== undefined) this.#metrics.linesExported(exportedLines);
    const nowMs = clock.monotonicMs();
    this.#metrics.providers(this.#providers.figures(snapshot.backends, nowMs));
    const usage = await runInSlices(this.#counters.usage(nowMs));
    this.#metrics.limitUsage(usageOfLimits(snapshot, usage, (limit) => this.#counters.labelOf(limit)));
    const snapshots = [...(await this.#pool.metrics(histograms)), this.#metrics.snapshot()];
    return [...familiesOf(this.#table, snapshots, this.#series), ...(await this.#process.families())];
  }
}

/** The files that a process keeps open. */
interface OpenedFiles {
  readonly saved: SavedCounters | undefined;
  readonly accessLogFile: AccessLogFile | undefined;
}

/** Opens the file of the access log; undefined if there is none. */
async function openAccessLogFile({ settings, clock, logs }: ProxyOptions): Promise<Result<AccessLogFile> | undefined> {
  if (settings.accessLogFile === undefined) return undefined;
  return await AccessLogFile.open(settings.accessLogFile, logs.logger("proxy::lifecycle"), clock);
}

/** Opens the directory of the counters; undefined if there is none. */
async function openSavedCounters(
  { settings, clock, logs }: ProxyOptions,
  metrics: ProcessMetrics,
): Promise<Result<SavedCounters> | undefined> {
  if (settings.stateDir === undefined) return undefined;
  return await SavedCounters.open({
    directory: settings.stateDir,
    clock,
    boot: readBoot(),
    random: Math.random,
    log: logs.logger("proxy::state"),
    onSaved: (untilMs, bytes) => metrics.countersSaved(untilMs, bytes),
    onFailure: () => metrics.saveFailed(),
  });
}

/** Returns the rules for parsing requests. */
function requestRules(settings: ProxySettings): RequestRules {
  return {
    irregularNames: settings.irregularHeaderNames,
    path: {
      escapedSlashes: settings.pathEscapedSlashes,
      pathParameters: settings.pathParameters,
      backslashes: settings.pathBackslashes,
      repeatedSlashes: settings.pathRepeatedSlashes,
      pathCase: settings.pathCase,
    },
  };
}

/**
 * Returns the rules on addresses. Special addresses are denied in a cluster, whose tenants must not reach this machine,
 * but not in a folder of the operator.
 */
function addressRules(
  { kubernetes, allowBackendAddress }: ProxySettings,
  operatorAddresses: readonly SocketAddress[],
): AddressRules {
  return { own: operatorAddresses, deniesSpecial: kubernetes, allowed: allowBackendAddress ?? [] };
}

/** The memory that all workers share. */
type SharedMemory = Pick<WorkerPoolStart, "counters" | "bodies" | "bodyMemoryBytes" | "providers">;

/** Returns what every worker starts with. */
function workerStart(options: ProxyOptions, memory: SharedMemory): WorkerPoolStart {
  const { settings } = options;
  const sockets = socketPlan({ openFiles: openFileLimit(), localPorts: localPortCount() }, settings.workers);
  const clientMemory = clientMemoryOf((settings.maxClientMemory * 1024 * 1024) / settings.workers);
  return {
    ...memory,
    clientMemory: { ...clientMemory, sockets: sockets.connections },
    // Other systems cannot share a port, or do not distribute its connections.
    listeningSockets: process.platform === "linux" ? sockets.listening : 1,
    expectsProxyHeader: settings.proxyProtocol === "required",
    upgradeProtocols: settings.upgradeProtocols === "off" ? [] : settings.upgradeProtocols,
    requestRules: requestRules(settings),
    trustedHops: settings.trustedHops,
    ipv6PrefixLength: settings.ipv6PrefixLength,
    streamIdleTimeoutMs: settings.streamIdleTimeout,
    contendedStreamIdleTimeoutMs: settings.contendedStreamIdleTimeout,
    upstream: upstreamSettings(settings, sockets),
    streams: {
      tcpIdleTimeoutMs: settings.tcpIdleTimeout,
      udpIdleTimeoutMs: settings.udpIdleTimeout,
      maxSessions: Math.min(settings.maxUdpSessions, sockets.sessions),
    },
    abandonedResponses: abandonedResponses(settings),
    logFilter: renderLogFilter(settings.logLevel),
    accessLog: {
      settings: accessLogOf(settings),
      toStdout: settings.accessLogStdout === "on",
      toFile: settings.accessLogFile !== undefined,
      otlp: exportsLog(settings, "access") ? options.logExport : undefined,
    },
    lineExport: exportsLog(settings, "application") ? options.logExport : undefined,
    tracing: workerTracing(options),
    isLatestGenAi: options.isLatestGenAi,
  };
}

function workerTracing({ tracing, settings }: ProxyOptions): WorkerTracing | undefined {
  if (tracing === undefined) return undefined;
  const { traceAlways: always, traceClientSampling } = settings;
  return { settings: tracing, always, ignoresClients: traceClientSampling === "ignore" };
}

/** Returns the settings of responses whose clients have disconnected. */
function abandonedResponses(settings: ProxySettings): AbandonedResponseSettings {
  return {
    timeoutMs: settings.abandonedAnswerTimeout,
    maxBytes: settings.abandonedAnswerBytes,
    maxResponses: settings.maxAbandonedAnswers,
  };
}

/** Returns the settings of upstreams. */
function upstreamSettings(settings: ProxySettings, sockets: SocketPlan): UpstreamSettings {
  const { healthCheckInterval: intervalMs, healthCheckTimeout: timeoutMs, healthCheckPath: path } = settings;
  return {
    maxConnections: Math.min(settings.maxConnectionsPerEndpoint, sockets.toEndpoint),
    maxTunnels: Math.min(settings.maxTunnelsPerEndpoint, sockets.tunnelsToEndpoint),
    maxSockets: sockets.toEndpoints,
    maxKeptPorts: sockets.keptPorts,
    maxRequests: settings.maxRequestsPerBackend,
    maxWaiting: settings.maxWaitingPerBackend,
    maxWaitMs: settings.maxWaitForConnection,
    ...(intervalMs > 0 && { healthChecks: { intervalMs, timeoutMs, path } }),
  };
}

/** Returns all problems that prevented the first configuration from being served. */
function nothingToServe(directory: string, applied: Applied | undefined): readonly Problem[] {
  const failures = (applied?.failures ?? []).map(({ message }) => ({ message }));
  const summary = `nothing to serve in ${JSON.stringify(directory)}: expected a Gateway of class gateway-proxy with a listener that can be opened`;
  return [...(applied?.problems ?? []), ...failures, { message: summary }];
}
