/** Creates the endpoints of the admin server and connects each to the parts of the process that it reads. */
import type { Decisions } from "@gatewayproxy/admin-api/decisions";
import type { Limits, StateDirectory } from "@gatewayproxy/admin-api/limits";
import type { Memory } from "@gatewayproxy/admin-api/memory";
import type { Task, TaskTree } from "@gatewayproxy/admin-api/tasks";
import type { Traffic } from "@gatewayproxy/admin-api/traffic";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { readHeapSamples } from "@gatewayproxy/runtime/heap-sampling";
import type { Logs } from "@gatewayproxy/runtime/log";
import { renderLogFilter } from "@gatewayproxy/runtime/log-filter";
import { mergeMetrics } from "@gatewayproxy/runtime/metrics";
import type { ThreadProfile } from "@gatewayproxy/runtime/pprof";
import { Profiler } from "@gatewayproxy/runtime/profiler";
import { renderSetting, type SettingKind } from "@gatewayproxy/runtime/setting-kinds";
import { runInSlices } from "@gatewayproxy/runtime/steps";
import { readVersion } from "@gatewayproxy/runtime/version";
import { decisionCapacity, type DecisionQuery } from "../admin/decision-ring.ts";
import type { ProcessFacts } from "../admin/dump/input.ts";
import type { AdminEndpoint } from "../admin/endpoint.ts";
import { configDumpEndpoint } from "../admin/endpoints/config-dump.ts";
import { indexEndpoint } from "../admin/endpoints/index-page.ts";
import { decisionsEndpoint, limitsEndpoint, limitsResetEndpoint } from "../admin/endpoints/limits.ts";
import { loggingEndpoint } from "../admin/endpoints/logging.ts";
import { memoryEndpoint, readProcessMemory, readThreadMemory } from "../admin/endpoints/memory.ts";
import { cpuProfileEndpoint, heapProfileEndpoint } from "../admin/endpoints/profile.ts";
import { quitEndpoint } from "../admin/endpoints/quit.ts";
import { tasksEndpoint, threadTasks } from "../admin/endpoints/tasks.ts";
import { traceEndpoint } from "../admin/endpoints/trace.ts";
import { trafficEndpoint } from "../admin/endpoints/traffic.ts";
import { mergeLearned, mergeServices, nameCounters } from "../admin/live-limits.ts";
import { readTraffic } from "../admin/live-traffic.ts";
import type { CounterTable } from "../policy/ratelimit/counter-table.ts";
import type { Configuration } from "./configuration.ts";
import { resetLimits } from "./reset-limits.ts";
import { proxyLogModules } from "./log-modules.ts";
import type { SaveState } from "./saved-counters.ts";
import { type ProxySettings, proxySettings } from "./settings.ts";
import type { TraceWatches } from "./trace-watches.ts";
import type { EndpointState } from "../ir/endpoint-state.ts";
import type { ProviderStates } from "../upstream/provider-states.ts";
import type { LocalLimit } from "../ir/limit.ts";
import type { BackendKey, Snapshot } from "../ir/snapshot.ts";
import type { WorkerPool } from "./worker-pool.ts";

/** The parts of the process that the endpoints read. */
export interface AdminParts {
  readonly settings: ProxySettings;
  readonly logs: Logs;
  readonly clock: Clock;
  readonly pool: WorkerPool;
  readonly counters: CounterTable;
  /** Undefined without `--state-dir`. */
  readonly saved: { readonly state: SaveState } | undefined;
  readonly providers: ProviderStates;
  /** Bytes of the counters' memory. */
  readonly counterBytes: number;
  readonly configuration: Configuration;
  readonly watches: TraceWatches;
  /** Called with the number of counters that an operator has reset. */
  readonly onCountersReset: (counters: number) => void;
  /** Starts the shutdown. */
  readonly quit: () => void;
}

/** Returns all endpoints; the index lists them in this order. */
export function adminEndpoints(parts: AdminParts): readonly AdminEndpoint[] {
  const { clock, pool, logs, watches, quit } = parts;
  const profiler = new Profiler(clock, () => pool.threads);
  const startedMs = clock.nowMs();
  const endpoints = [
    configDump(parts, startedMs),
    trafficEndpoint(() => collectTraffic(parts, startedMs)),
    loggingEndpoint(logLevels(logs, pool)),
    memoryEndpoint(() => collectMemory(parts)),
    traceEndpoint((options) => watches.watch(pool, clock.nowMs(), options), clock),
    limitsEndpoint((max) => collectLimits(parts, max)),
    limitsResetEndpoint((request, source) => resetLimits(parts, request, source)),
    decisionsEndpoint((query) => findDecisions(pool, query)),
    cpuProfileEndpoint((durationMs, signal) => profiler.take(durationMs, signal)),
    heapProfileEndpoint((durationMs, signal) => profiler.takeHeap(() => collectHeap(pool), durationMs, signal)),
    tasksEndpoint(() => collectTasks(parts, profiler)),
    quitEndpoint(quit),
  ];
  return [indexEndpoint(endpoints), ...endpoints];
}

function configDump({ settings, pool, configuration, providers, clock }: AdminParts, startedMs: number): AdminEndpoint {
  const processFacts: ProcessFacts = {
    version: readVersion(new URL("../../package.json", import.meta.url)),
    startedMs,
    mode: settings.kubernetes ? "kubernetes" : "file",
    source: sourceName(settings),
    settings: settingsByFlag(settings),
  };
  return configDumpEndpoint(async () => {
    const state = configuration.state();
    const [generations, keySets, endpoints] = await Promise.all([
      pool.query("generation", undefined),
      pool.query("keySets", undefined),
      collectEndpoints(pool, state.snapshot.backends),
    ]);
    return {
      process: processFacts,
      configuration: state,
      workerDeaths: pool.deaths,
      workers: generations.map(({ worker, result }) => ({ worker, generation: result })),
      endpoints,
      keySets: keySets.flatMap(({ result }) => result),
      providers: providers.figures(state.snapshot.backends, clock.monotonicMs()),
    };
  });
}

/** The number of endpoints of one query, which a worker collects in a millisecond. */
const endpointsOfQuery = 1_000;

/** Asks the workers for a few backends at a time: a hundred thousand endpoints would hold their event loops. */
async function collectEndpoints(pool: WorkerPool, backends: Snapshot["backends"]): Promise<readonly EndpointState[]> {
  const collected: EndpointState[] = [];
  let keys: BackendKey[] = [];
  let count = 0;
  const query = async (): Promise<void> => {
    for (const { result } of await pool.query("endpoints", keys)) {
      for (const endpoint of result) collected.push(endpoint);
    }
    [keys, count] = [[], 0];
  };
  for (const { key, endpoints } of Object.values(backends)) {
    if (count > 0 && count + endpoints.length > endpointsOfQuery) await query();
    keys.push(key);
    count += Math.max(1, endpoints.length);
  }
  if (keys.length > 0) await query();
  return collected;
}

/** Returns the source of the resources. */
function sourceName({ configDir }: ProxySettings): string {
  return configDir ?? "the Kubernetes API";
}

/** Returns every setting with a value, in the syntax of its flag. */
function settingsByFlag(settings: ProxySettings): ProcessFacts["settings"] {
  const entries = Object.entries(settings).flatMap(([name, value]) => {
    // The keys of the settings are the keys of `proxySettings`.
    const { flag, kind }: { flag: string; kind: SettingKind<unknown> } = proxySettings[name as keyof ProxySettings];
    if (value === undefined) return [];
    const isPlain = kind.render === undefined && typeof value !== "object";
    return [[flag, isPlain ? value : renderSetting(kind, value)] as const];
  });
  return Object.fromEntries(entries);
}

function logLevels(logs: Logs, pool: WorkerPool): Parameters<typeof loggingEndpoint>[0] {
  return {
    initial: logs.filter,
    modules: proxyLogModules,
    current: () => logs.filter,
    async set(filter) {
      const text = renderLogFilter(filter);
      logs.setFilter(filter);
      pool.setLogFilter(text);
      await pool.query("setLogFilter", text);
    },
  };
}

async function collectTraffic({ pool, clock }: AdminParts, startedMs: number): Promise<Traffic> {
  const snapshot = mergeMetrics(await pool.metrics());
  return {
    at: new Date(clock.nowMs()).toISOString(),
    startedAt: new Date(startedMs).toISOString(),
    uptimeSeconds: process.uptime(),
    ...readTraffic(snapshot),
  };
}

async function collectLimits(
  { pool, counters, saved, clock, configuration }: AdminParts,
  max: number,
): Promise<Limits> {
  const [services, learned] = await Promise.all([
    pool.query("rateLimitServices", undefined),
    pool.query("learnedLimits", max),
  ]);
  const { snapshot } = configuration.state();
  const liveCounters = counters.entries(clock.monotonicMs());
  const labelOf = (limit: LocalLimit): string => counters.labelOf(limit);
  const named = await runInSlices(nameCounters(snapshot, liveCounters, labelOf, max));
  return {
    at: new Date(clock.nowMs()).toISOString(),
    counters: named.counters,
    countersLeftOut: named.leftOut,
    ...(saved !== undefined && { state: describeSaves(saved.state) }),
    services: mergeServices(services.map(({ result }) => result)),
    learned: mergeLearned(learned.flatMap(({ result }) => result)).slice(0, max),
  };
}

function describeSaves({ untilMs, lastError, ...state }: SaveState): StateDirectory {
  const iso = (ms: number): string => new Date(ms).toISOString();
  return {
    ...state,
    ...(untilMs !== undefined && { savedUntil: iso(untilMs) }),
    ...(lastError !== undefined && { lastError: { message: lastError.message, at: iso(lastError.atMs) } }),
  };
}

async function findDecisions(pool: WorkerPool, query: DecisionQuery): Promise<Decisions> {
  const workers = await pool.query("decisions", query);
  const decisions = workers.flatMap(({ result }) => result.decisions);
  return {
    decisions: decisions.sort((a, b) => (a.at < b.at ? 1 : -1)),
    remembered: workers.reduce((sum, { result }) => sum + result.remembered, 0),
    capacity: workers.length * decisionCapacity,
  };
}

async function collectHeap(pool: WorkerPool): Promise<readonly ThreadProfile[]> {
  const workers = await pool.query("heapSamples", undefined);
  const threads = workers.map(({ worker, result }) => ({ thread: `worker ${worker}`, json: result }));
  return [{ thread: "main", json: readHeapSamples() }, ...threads];
}

async function collectTasks(
  { pool, watches, clock, settings }: AdminParts,
  { runningSinceMs }: Profiler,
): Promise<TaskTree> {
  const workers = await pool.query("tasks", undefined);
  const nowMs = clock.nowMs();
  const traces = watches.list().map(({ sinceMs, expression, traceId }): Task => {
    const trace = traceId === undefined ? undefined : `trace ${traceId}`;
    const name = [trace, expression].filter((part) => part !== undefined).join(", ") || "any request";
    return { kind: "trace", name, ageMs: Math.max(0, nowMs - sinceMs), children: [] };
  });
  const source: Task = { kind: "watch", name: sourceName(settings), children: [] };
  const profiles = (runningSinceMs === undefined ? [] : [runningSinceMs]).map((sinceMs): Task => {
    return { kind: "profile", name: "cpu", ageMs: Math.max(0, nowMs - sinceMs), children: [] };
  });
  return {
    threads: [threadTasks("main", [source, ...traces, ...profiles]), ...workers.map(({ result }) => result)],
  };
}

async function collectMemory({ pool, counters, counterBytes, clock }: AdminParts): Promise<Memory> {
  const workers = await pool.query("memory", undefined);
  return {
    process: readProcessMemory(),
    threads: [readThreadMemory("main"), ...workers.map(({ result }) => result)],
    counters: {
      bytes: counterBytes,
      capacity: counters.capacity,
      open: counters.entries(clock.monotonicMs()).reduce((count) => count + 1, 0),
      evictions: counters.evictions,
    },
  };
}
