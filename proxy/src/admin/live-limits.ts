/**
 * Describes the counters of this replica by their limits, and merges the states of rate limit services of all workers.
 * Pure functions.
 */
import type { LearnedLimit, LimitCounter, RateLimitService } from "@gatewayproxy/admin-api/limits";
import type { LocalLimit } from "../ir/limit.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import type { LiveCounter } from "../policy/ratelimit/counter-table.ts";
import type { LearnedEntry } from "../policy/ratelimit/global/learned-limits.ts";
import type { ServiceState } from "../policy/ratelimit/global/service-client.ts";
import { isSecretExpression, isSecretName, redactValue } from "@gatewayproxy/runtime/redaction";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import { describeWindow } from "./limit-window.ts";
import { globalLimitsOf, localLimitsOf } from "./snapshot-limits.ts";

/**
 * Returns the counters of current limits that are nearest to exhaustion, the nearest first. A step for each counter: a
 * client can open all that the process has.
 *
 * @param labelOf As `CounterTable.labelOf`.
 * @param max Of the listed counters; the others are only counted.
 */
export function* nameCounters(
  snapshot: Snapshot,
  counters: Iterable<LiveCounter>,
  labelOf: (limit: LocalLimit) => string,
  max: number,
): Steps<ListedCounters> {
  const limits = new Map<string, Map<string, NamedLimit>>();
  const add = (named: NamedLimit): void => {
    const { limit, source } = named;
    const label = labelOf(limit);
    const sharing = limits.get(label) ?? new Map<string, NamedLimit>();
    limits.set(label, sharing);
    // Only entries of a bucket share a counter. The targets of a policy are not listed one by one.
    const entry = limit.bucket === undefined ? "" : `${limit.policy} ${source} ${limit.entry}`;
    if (sharing.size < maxSharing || sharing.has(entry)) sharing.set(entry, named);
  };
  for (const { fallback } of globalLimitsOf(snapshot)) {
    for (const limit of fallback) add({ limit, source: "fallback" });
    yield;
  }
  for (const limit of localLimitsOf(snapshot)) {
    add({ limit, source: "local" });
    yield;
  }
  let nearest: OpenCounter[] = [];
  let count = 0;
  for (const counter of counters) {
    for (const named of limits.get(counter.entry)?.values() ?? []) {
      nearest.push({ named, counter, share: shareOf(named, counter) });
      count++;
    }
    if (nearest.length >= max + sortedAtOnce) nearest = nearest.sort(byShare).slice(0, max);
    yield;
  }
  nearest = nearest.sort(byShare).slice(0, max);
  const listed = yield* mapInSteps(nearest, ({ named, counter }) => nameCounter(named, counter));
  return { counters: listed, leftOut: count - listed.length };
}

/** The listed counters, and the number of the others. */
export interface ListedCounters {
  readonly counters: readonly LimitCounter[];
  readonly leftOut: number;
}

/** A counter and one of the limits that it belongs to. */
interface OpenCounter {
  readonly named: NamedLimit;
  readonly counter: LiveCounter;
  /** The share of the limit that is left. */
  readonly share: number;
}

/** Counters that are collected until those that are not listed are dropped. */
const sortedAtOnce = 2_048;

function byShare(a: OpenCounter, b: OpenCounter): number {
  return a.share - b.share || b.counter.used - a.counter.used;
}

/** Entries of a bucket that are listed for one counter. */
const maxSharing = 16;

/** A limit of 0 has nothing left. */
function shareOf({ limit }: NamedLimit, { used }: LiveCounter): number {
  const capacity = limit.amount + limit.burst;
  return Math.max(0, capacity - used) / Math.max(1, capacity);
}

interface NamedLimit {
  readonly limit: LocalLimit;
  readonly source: LimitCounter["source"];
}

function nameCounter({ limit, source }: NamedLimit, { key, used, held, resetSeconds }: LiveCounter): LimitCounter {
  const { policy, entry, name, target, counts, unit, unitCount = 1, bucket, replicas, when, mode, burst } = limit;
  const capacity = limit.amount + limit.burst;
  return {
    policy,
    entry,
    ...(name !== undefined && { name }),
    target,
    source,
    counts,
    ...(unit !== undefined && { unit }),
    every: unitCount,
    ...describeWindow(limit.window),
    ...(bucket !== undefined && { bucket }),
    ...(replicas !== undefined && { replicas }),
    ...(when !== undefined && { when }),
    mode,
    ...(key !== undefined && { key: redactValue(key, isSecretExpression(limit.key ?? "")) }),
    limit: capacity,
    burst,
    used,
    held,
    remaining: Math.max(0, capacity - used),
    resetSeconds,
  };
}

/** Returns a limit that a service has reported, without secrets of its descriptor. */
export function nameLearned({
  global,
  descriptor,
  values,
  requestsPerUnit,
  windowSeconds,
}: LearnedEntry): LearnedLimit {
  return {
    policy: global.policy,
    target: global.target,
    service: global.service,
    descriptor: descriptor.entries.map(({ key, expression }, at) => {
      return { key, value: redactValue(values[at] ?? "", isSecretName(key) || isSecretExpression(expression)) };
    }),
    counts: descriptor.counts,
    limit: requestsPerUnit,
    windowSeconds,
  };
}

/** Returns the distinct limits that the workers have learned. */
export function mergeLearned(limits: readonly LearnedLimit[]): readonly LearnedLimit[] {
  return [...new Map(limits.map((limit) => [JSON.stringify(limit), limit])).values()];
}

/**
 * Returns one row per service.
 *
 * @param workers The states of each worker.
 */
export function mergeServices(workers: readonly (readonly ServiceState[])[]): readonly RateLimitService[] {
  const byService = Map.groupBy(workers.flat(), ({ service }) => service);
  return Array.from(byService, ([service, states]) => mergeService(service, states)).sort((a, b) =>
    a.service < b.service ? -1 : 1,
  );
}

/** @param states Of at least one worker. */
function mergeService(service: string, states: readonly ServiceState[]): RateLimitService {
  const open = states.filter(({ breaker }) => breaker === "open");
  const cause = open.find((state) => state.cause !== undefined)?.cause;
  const errors = states.flatMap(({ lastError }) => (lastError === undefined ? [] : [lastError]));
  const lastError = errors.toSorted((a, b) => b.atMs - a.atMs)[0];
  const identity = states.find((state) => state.identity !== undefined)?.identity;
  const sum = (read: (state: ServiceState) => number): number =>
    states.reduce((total, state) => total + read(state), 0);
  return {
    service,
    breaker: open.length === 0 ? "closed" : "open",
    openOn: open.length,
    workers: states.length,
    since: iso(sinceMs(states, open)),
    ...(cause !== undefined && { cause }),
    ...(lastError !== undefined && { lastError: { message: lastError.message, at: iso(lastError.atMs) } }),
    failuresInARow: failuresSinceResponse(states),
    chargesBuffered: sum(({ chargesBuffered }) => chargesBuffered),
    denialsCached: sum(({ denialsCached }) => denialsCached),
    // What one has learned, the others know a moment later.
    limitsLearned: Math.min(...states.map(({ limitsLearned }) => limitsLearned)),
    ...(identity !== undefined && { identity }),
  };
}

/**
 * Returns the failures in a row since the last response to any worker. A worker without further calls does not notice
 * later responses to others.
 */
function failuresSinceResponse(states: readonly ServiceState[]): number {
  const respondedMs = Math.max(...states.map((state) => state.respondedMs ?? 0));
  const failing = states.filter(({ lastError }) => lastError !== undefined && lastError.atMs > respondedMs);
  return Math.max(0, ...failing.map(({ failuresInARow }) => failuresInARow));
}

/** Returns the time at which the service became unavailable for the first worker, or recovered for the last one. */
function sinceMs(states: readonly ServiceState[], open: readonly ServiceState[]): number {
  return open.length > 0
    ? Math.min(...open.map((state) => state.sinceMs))
    : Math.max(...states.map((state) => state.sinceMs));
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
