/** The counts of the service as plain data: taken in each thread, posted, added up and exported by the sinks. */
import { addNative, laterExemplars, type NativeCounts } from "@gatewayproxy/runtime/metrics";
import type { RateLimitStats, RuleCounts, ServiceCounts } from "../stats.ts";
import type { CallTimes, CallTimesSnapshot } from "./call-times.ts";

/** The counters of one rule; see `RuleSeries`. */
export interface SeriesSnapshot {
  readonly domain: string;
  readonly segments: readonly string[];
  readonly counts: Readonly<RuleCounts>;
}

/** The counts of one thread, or their sums over threads. */
export interface StatsSnapshot {
  readonly service: Readonly<ServiceCounts>;
  readonly series: readonly SeriesSnapshot[];
  /** Calls for unknown domains, by domain. */
  readonly domainsNotFound: ReadonlyMap<string, number>;
  readonly callTimes: CallTimesSnapshot;
  /** Open gRPC connections. */
  readonly connections: number;
  /** Counts of the over-limit cache, if there is one. */
  readonly cache?: CacheCounts;
  readonly pools: readonly PoolCounts[];
  /** Commands to the store. */
  readonly commands: readonly CommandCounts[];
}

/** Equal to `OverLimitCacheCounts` of the limiter. */
export interface CacheCounts {
  readonly entries: number;
  readonly hits: number;
  readonly misses: number;
  readonly overwritten: number;
  readonly evicted: number;
  readonly expired: number;
}

/** Equal to `StoreConnections` of the store. */
export interface PoolCounts {
  readonly pool: string;
  readonly active: number;
  readonly opened: number;
  readonly closed: number;
}

/** Equal to `StoreCommands` of the store. */
export interface CommandCounts {
  readonly name: string;
  readonly code?: string;
  readonly count: number;
}

/** The counts of a thread's store. */
interface StoreCounts {
  readonly cache?: CacheCounts | undefined;
  readonly pools?: readonly PoolCounts[];
  readonly commands?: readonly CommandCounts[];
}

/** Takes the counts of one thread. */
export function takeStats(
  stats: RateLimitStats,
  callTimes: CallTimes,
  connections: number,
  { cache, pools = [], commands = [] }: StoreCounts = {},
): StatsSnapshot {
  return {
    service: { ...stats.service },
    series: Array.from(stats.series(), ({ domain, segments, counts }) => ({ domain, segments, counts: { ...counts } })),
    domainsNotFound: new Map(stats.domainsNotFound()),
    callTimes: callTimes.take(),
    connections,
    ...(cache === undefined ? {} : { cache }),
    pools,
    commands,
  };
}

/** Adds up the counts of the threads, at least one. */
export function mergeStats(snapshots: readonly StatsSnapshot[]): StatsSnapshot {
  const [first, ...rest] = snapshots;
  if (first === undefined) throw new Error("there is no thread to take stats from");
  if (rest.length === 0) return first;
  return {
    service: addUp(snapshots.map(({ service }) => service)),
    series: mergeSeries(snapshots.flatMap(({ series }) => series)),
    domainsNotFound: mergeMaps(snapshots.map(({ domainsNotFound }) => domainsNotFound)),
    callTimes: mergeTimes(snapshots.map(({ callTimes }) => callTimes)),
    connections: snapshots.reduce((sum, { connections }) => sum + connections, 0),
    ...mergeCaches(snapshots.flatMap(({ cache }) => cache ?? [])),
    pools: mergePools(snapshots.flatMap(({ pools }) => pools)),
    commands: mergeCommands(snapshots.flatMap(({ commands }) => commands)),
  };
}

/** Adds up the counts of threads that have ended: without open connections and without samples of times. */
export function mergeStatsOfEnded(snapshots: readonly StatsSnapshot[]): StatsSnapshot {
  const merged = mergeStats(snapshots);
  const { cache } = merged;
  const ended = {
    ...(cache === undefined ? {} : { cache: { ...cache, entries: 0 } }),
    pools: merged.pools.map((pool) => ({ ...pool, active: 0, closed: pool.opened })),
  };
  return { ...merged, ...ended, connections: 0, callTimes: { ...merged.callTimes, samplesMs: [], sampledOf: 0 } };
}

/** Adds objects of numbers field by field; there is at least one. */
function addUp<T extends object>(counted: readonly Readonly<T>[]): T {
  const keys = Object.keys(counted[0] ?? {});
  const value = (item: Readonly<T>, key: string): number => Number(item[key as keyof T]);
  // The result has the keys of the inputs, with numbers as values.
  return Object.fromEntries(keys.map((key) => [key, counted.reduce((sum, item) => sum + value(item, key), 0)])) as T;
}

function mergeCaches(caches: readonly CacheCounts[]): { readonly cache?: CacheCounts } {
  return caches.length === 0 ? {} : { cache: addUp(caches) };
}

function mergePools(pools: readonly PoolCounts[]): PoolCounts[] {
  const groups = Map.groupBy(pools, ({ pool }) => pool);
  return Array.from(groups, ([pool, group]) => ({
    pool,
    ...addUp(group.map(({ active, opened, closed }) => ({ active, opened, closed }))),
  }));
}

function mergeCommands(commands: readonly CommandCounts[]): CommandCounts[] {
  const groups = Map.groupBy(commands, ({ name, code = "" }) => `${name} ${code}`);
  return Array.from(groups.values(), (group) => {
    const { name = "", code } = group[0] ?? {};
    const count = group.reduce((sum, item) => sum + item.count, 0);
    return { name, ...(code === undefined ? {} : { code }), count };
  });
}

function mergeSeries(series: readonly SeriesSnapshot[]): SeriesSnapshot[] {
  const groups = Map.groupBy(series, ({ domain, segments }) => JSON.stringify([domain, segments]));
  return Array.from(groups.values(), (group) => {
    const { domain = "", segments = [] } = group[0] ?? {};
    return { domain, segments, counts: addUp(group.map(({ counts }) => counts)) };
  });
}

function mergeMaps(maps: readonly ReadonlyMap<string, number>[]): Map<string, number> {
  const merged = new Map<string, number>();
  for (const [key, value] of maps.flatMap((map) => [...map])) merged.set(key, (merged.get(key) ?? 0) + value);
  return merged;
}

function mergeTimes(times: readonly CallTimesSnapshot[]): CallTimesSnapshot {
  const [first] = times;
  const exemplars = laterExemplars(times.map((each) => each.exemplars));
  const native = times.reduce<NativeCounts | undefined>((sum, each) => addNative(sum, each.native), undefined);
  return {
    ...(native !== undefined && { native }),
    ...(exemplars !== undefined && { exemplars }),
    calls: times.reduce((sum, { calls }) => sum + calls, 0),
    histogram: (first?.histogram ?? []).map((_, at) => times.reduce((sum, item) => sum + (item.histogram[at] ?? 0), 0)),
    samplesMs: times.flatMap(({ samplesMs }) => samplesMs),
    sampledOf: times.reduce((sum, { sampledOf }) => sum + sampledOf, 0),
  };
}
