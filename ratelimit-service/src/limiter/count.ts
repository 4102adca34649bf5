/** Counts the planned descriptors of a call in the store, and computes their statuses. */
import type { RateLimitStats } from "../stats.ts";
import type { CounterStore } from "../model/counter-store.ts";
import type { OverLimitCache } from "./over-limit-cache.ts";
import type { CountedDescriptor } from "./plan.ts";
import type { DescriptorStatus } from "../model/rate-limit.ts";

/** The store, and the settings that change how calls are counted. */
export interface CountOptions {
  /** The store of all counters. */
  readonly store: CounterStore;
  /** Gets the outcome of each descriptor. */
  readonly stats: RateLimitStats;
  /** Without it, every call uses the store. */
  readonly overLimitCache?: OverLimitCache;
  /** Whether a call that one limit denies counts for that limit only (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT). */
  readonly stopsAtOverLimit: boolean;
  /** Whether a check with 0 hits is over an exactly used-up limit (STRICT_ZERO_HIT); envoyproxy/ratelimit allows it. */
  readonly strictZeroHit: boolean;
}

/**
 * Counts the descriptors and sets `after`. Returns synchronously when the store does; a promise rejects with
 * `StoreError`.
 */
export function countDescriptors(
  counted: readonly CountedDescriptor[],
  options: CountOptions,
): undefined | Promise<undefined> {
  const { store, stopsAtOverLimit } = options;
  const { overLimitCache } = options;
  const uncached = overLimitCache === undefined ? counted : excludeCachedOver(counted, overLimitCache);
  if (uncached.length === 0) return undefined;
  if (!stopsAtOverLimit) return apply(store, uncached);
  if (uncached.length < counted.length) {
    for (const descriptor of uncached) if (descriptor.hits > 0) descriptor.hits = 0;
    return apply(store, uncached);
  }
  const before = store.apply(uncached.map((descriptor) => ({ ...descriptor, hits: 0 })));
  if (!(before instanceof Promise)) {
    countOnlyExceeding(uncached, before);
    return apply(store, uncached);
  }
  return before.then((values) => {
    countOnlyExceeding(uncached, values);
    return apply(store, uncached);
  });
}

/** Compares the counter with the limit, updates the metrics, and sets `status`. */
export function settleDescriptor(descriptor: CountedDescriptor, nowSeconds: number, options: CountOptions): void {
  const { stats } = options;
  const { requestedHits, after, limit, series, rule } = descriptor;
  if (requestedHits < 0) {
    series.counts.totalNegativeHits -= requestedHits;
    options.overLimitCache?.countRefund();
    descriptor.status = statusOf(descriptor, false, nowSeconds);
    return;
  }
  series.counts.totalHits += requestedHits;
  let isOver = true;
  if (descriptor.isCachedOver) {
    stats.countCachedOverLimit(series.counts, requestedHits, rule.shadowMode);
  } else {
    isOver =
      after > limit.requestsPerUnit || (options.strictZeroHit && requestedHits === 0 && after >= limit.requestsPerUnit);
    stats.countOutcome(series.counts, {
      hits: descriptor.hits,
      before: after - descriptor.hits,
      after,
      requestsPerUnit: limit.requestsPerUnit,
      isOverLimit: isOver,
      isShadow: rule.shadowMode,
    });
    if (after > limit.requestsPerUnit) {
      const { key, windowEndSeconds, refundsBefore: refunds } = descriptor;
      const over = { requestsPerUnit: limit.requestsPerUnit, windowEndSeconds, refunds };
      options.overLimitCache?.set(key, over, nowSeconds);
    }
  }
  descriptor.status = statusOf(descriptor, isOver, nowSeconds);
}

function statusOf(descriptor: CountedDescriptor, isOver: boolean, nowSeconds: number): DescriptorStatus {
  const { limit, after, windowEndSeconds, rule } = descriptor;
  return {
    code: isOver && !rule.shadowMode ? "OVER_LIMIT" : "OK",
    currentLimit: limit,
    limitRemaining: isOver ? 0 : Math.max(0, limit.requestsPerUnit - after),
    durationUntilResetSeconds: windowEndSeconds - nowSeconds,
  };
}

function apply(store: CounterStore, counted: readonly CountedDescriptor[]): undefined | Promise<undefined> {
  const values = store.apply(counted);
  if (!(values instanceof Promise)) {
    setResults(counted, values);
    return undefined;
  }
  return values.then((results) => {
    setResults(counted, results);
    return undefined;
  });
}

function setResults(counted: readonly CountedDescriptor[], values: readonly number[]): void {
  for (let i = 0; i < counted.length; i++) {
    const descriptor = counted[i];
    if (descriptor !== undefined) descriptor.after = values[i] ?? 0;
  }
}

/**
 * Marks the counters that the cache knows to be over their limit and returns the others. A refund invalidates the
 * cache.
 */
function excludeCachedOver(counted: readonly CountedDescriptor[], cache: OverLimitCache): readonly CountedDescriptor[] {
  for (const descriptor of counted) {
    if (descriptor.requestedHits < 0) cache.countRefund();
    else descriptor.isCachedOver = cache.isOver(descriptor.key, descriptor.limit.requestsPerUnit);
    descriptor.refundsBefore = cache.refunds;
  }
  return counted.filter((descriptor) => !descriptor.isCachedOver);
}

/** If some counters would exceed their limits, sets the hits of the others to 0. Refunds keep their hits. */
function countOnlyExceeding(counted: readonly CountedDescriptor[], before: readonly number[]): void {
  const exceeds = counted.map(({ hits, limit }, i) => (before[i] ?? 0) + hits > limit.requestsPerUnit);
  if (!exceeds.includes(true)) return;
  for (let i = 0; i < counted.length; i++) {
    const descriptor = counted[i];
    if (descriptor !== undefined && descriptor.hits > 0 && exceeds[i] !== true) descriptor.hits = 0;
  }
}
