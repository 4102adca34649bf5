/** The counters of this replica under the names of their limits, and the rate limit services over all workers. Pure. */
import type { LearnedLimit, LimitCounter, RateLimitService } from "@gatewayproxy/admin-api/limits";
import type { LocalLimit } from "../ir/limit.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import type { LiveCounter } from "../policy/ratelimit/counter-table.ts";
import type { Learned } from "../policy/ratelimit/global/learned-limits.ts";
import type { ServiceState } from "../policy/ratelimit/global/service-client.ts";
import { budgetOf } from "../policy/ratelimit/window.ts";
import { isSecretExpression, isSecretName, shownValue } from "@gatewayproxy/runtime/redaction";
import { globalLimitsOf, localLimitsOf } from "./snapshot-limits.ts";

/** Counters of limits that are in force, nearest to exhaustion first. @param labelOf as `CounterTable.labelOf`. */
export function nameCounters(
  snapshot: Snapshot,
  counters: Iterable<LiveCounter>,
  labelOf: (limit: LocalLimit) => string,
): readonly LimitCounter[] {
  const limits = new Map<string, NamedLimit>();
  for (const { fallback } of globalLimitsOf(snapshot)) {
    for (const limit of fallback) limits.set(labelOf(limit), { limit, source: "fallback" });
  }
  for (const limit of localLimitsOf(snapshot)) limits.set(labelOf(limit), { limit, source: "local" });
  const named: LimitCounter[] = [];
  for (const counter of counters) {
    const known = limits.get(counter.entry);
    if (known !== undefined) named.push(nameCounter(known, counter));
  }
  return named.sort((a, b) => a.remaining / a.limit - b.remaining / b.limit || b.used - a.used);
}

interface NamedLimit {
  readonly limit: LocalLimit;
  readonly source: LimitCounter["source"];
}

function nameCounter({ limit, source }: NamedLimit, { key, used, resetSeconds }: LiveCounter): LimitCounter {
  const { policy, entry, target, counts, unit, mode, burst } = limit;
  const { capacity } = budgetOf(limit);
  return {
    policy,
    entry,
    target,
    source,
    counts,
    unit,
    mode,
    ...(key !== undefined && { key: shownValue(key, isSecretExpression(limit.key ?? "")) }),
    limit: capacity,
    burst,
    used,
    remaining: Math.max(0, capacity - used),
    resetSeconds,
  };
}

/** A limit that a service has reported, without the secrets of its descriptor. */
export function nameLearned({ global, descriptor, values, requestsPerUnit, windowSeconds }: Learned): LearnedLimit {
  return {
    policy: global.policy,
    target: global.target,
    service: global.service,
    descriptor: descriptor.entries.map(({ key, expression }, at) => {
      return { key, value: shownValue(values[at] ?? "", isSecretName(key) || isSecretExpression(expression)) };
    }),
    counts: descriptor.counts,
    limit: requestsPerUnit,
    windowSeconds,
  };
}

/** Each once, of whichever workers have heard of it. */
export function mergeLearned(limits: readonly LearnedLimit[]): readonly LearnedLimit[] {
  return [...new Map(limits.map((limit) => [JSON.stringify(limit), limit])).values()];
}

/** One row per service. @param workers what each worker says. */
export function mergeServices(workers: readonly (readonly ServiceState[])[]): readonly RateLimitService[] {
  const byService = Map.groupBy(workers.flat(), ({ service }) => service);
  return Array.from(byService, ([service, states]) => mergeService(service, states)).sort((a, b) =>
    a.service < b.service ? -1 : 1,
  );
}

/** @param states of at least one worker. */
function mergeService(service: string, states: readonly ServiceState[]): RateLimitService {
  const open = states.filter(({ breaker }) => breaker === "open");
  const cause = open.find((state) => state.cause !== undefined)?.cause;
  const errors = states.flatMap(({ lastError }) => (lastError === undefined ? [] : [lastError]));
  const lastError = errors.toSorted((a, b) => b.atMs - a.atMs)[0];
  const sum = (of: (state: ServiceState) => number): number => states.reduce((total, state) => total + of(state), 0);
  return {
    service,
    breaker: open.length === 0 ? "closed" : "open",
    openOn: open.length,
    workers: states.length,
    since: iso(sinceMs(states, open)),
    ...(cause !== undefined && { cause }),
    ...(lastError !== undefined && { lastError: { message: lastError.message, at: iso(lastError.atMs) } }),
    failuresInARow: failuresSinceAnswer(states),
    chargesBuffered: sum(({ chargesBuffered }) => chargesBuffered),
    refusalsRemembered: sum(({ refusalsRemembered }) => refusalsRemembered),
    limitsLearned: sum(({ limitsLearned }) => limitsLearned),
  };
}

/** A worker that had failures and then nothing to ask does not know that the service has answered others since. */
function failuresSinceAnswer(states: readonly ServiceState[]): number {
  const answeredMs = Math.max(...states.map((state) => state.answeredMs ?? 0));
  const failing = states.filter(({ lastError }) => lastError !== undefined && lastError.atMs > answeredMs);
  return Math.max(0, ...failing.map(({ failuresInARow }) => failuresInARow));
}

/** It is away since the first worker has said so, and back since the last has. */
function sinceMs(states: readonly ServiceState[], open: readonly ServiceState[]): number {
  return open.length > 0
    ? Math.min(...open.map((state) => state.sinceMs))
    : Math.max(...states.map((state) => state.sinceMs));
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
