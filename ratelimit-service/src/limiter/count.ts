/** Counts the planned descriptors of a call in the store, and computes their statuses. */
import type { RateLimitStats } from "../stats.ts";
import type { CounterStore, GroupCounts, GroupStep } from "../model/counter-store.ts";
import { cachedGroup } from "./group.ts";
import type { OverLimitCache } from "./over-limit-cache.ts";
import type { CountedDescriptor, GroupedDescriptor, StoredDescriptor } from "./plan.ts";
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
 * Counts the descriptors and sets `after`, or `before` of a group. Returns synchronously when the store does; a promise
 * rejects with `StoreError`.
 *
 * @param isDenied of a reservation: whether the counters that were read deny the call (`wouldBeOver`). Then none
 *   is changed.
 */
export function countDescriptors(
  counted: readonly StoredDescriptor[],
  nowSeconds: number,
  options: CountOptions,
  isDenied?: () => boolean,
): undefined | Promise<undefined> {
  const { store, stopsAtOverLimit } = options;
  const { overLimitCache } = options;
  const uncached = overLimitCache === undefined ? counted : excludeCachedOver(counted, nowSeconds, overLimitCache);
  if (uncached.length === 0) return undefined;
  if (isDenied !== undefined) return countIfFits(uncached, isDenied, store);
  if (!stopsAtOverLimit) return apply(store, uncached);
  if (uncached.length < counted.length) {
    for (const descriptor of uncached) if (descriptor.hits > 0) descriptor.hits = 0;
    return apply(store, uncached);
  }
  return readBefore(store, uncached, () => {
    countOnlyExceeding(uncached);
    return apply(store, uncached);
  });
}

/** Reads the counters, and sets `after` or `before` to what they are without the hits of the call, for `count`. */
function readBefore(
  store: CounterStore,
  stored: readonly StoredDescriptor[],
  count: () => undefined | Promise<undefined>,
): undefined | Promise<undefined> {
  const hits = stored.map((descriptor) => descriptor.hits);
  for (const descriptor of stored) descriptor.hits = 0;
  const reading = apply(store, stored);
  const proceed = () => {
    stored.forEach((descriptor, i) => (descriptor.hits = hits[i] ?? 0));
    return count();
  };
  return reading === undefined ? proceed() : reading.then(proceed);
}

/** Counts a reservation, unless the counters deny it. Its statuses are those of a call that has counted. */
function countIfFits(
  stored: readonly StoredDescriptor[],
  isDenied: () => boolean,
  store: CounterStore,
): undefined | Promise<undefined> {
  return readBefore(store, stored, () => {
    if (!isDenied()) return apply(store, stored);
    for (const descriptor of stored) {
      descriptor.isOnlyRead = true;
      if (descriptor.kind === "counted") descriptor.after += descriptor.hits;
    }
    return undefined;
  });
}

/** Whether the hits of a descriptor, whose counters were read, or are cached, are over a limit. */
export function wouldBeOver(descriptor: StoredDescriptor, { strictZeroHit }: CountOptions): boolean {
  const isCached = descriptor.kind === "counted" ? descriptor.isCachedOver : descriptor.cachedOver !== undefined;
  if (isCached || wouldExceed(descriptor)) return true;
  if (descriptor.hits !== 0) return false;
  return descriptor.kind === "counted"
    ? strictZeroHit && descriptor.after >= descriptor.limit.requestsPerUnit
    : descriptor.counters.some(({ limit }, i) => (descriptor.before[i]?.before ?? 0) >= limit);
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
    if (after > limit.requestsPerUnit && !descriptor.isOnlyRead) {
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
    // The window of a refund may have ended.
    durationUntilResetSeconds: Math.max(1, windowEndSeconds - nowSeconds),
  };
}

function apply(store: CounterStore, stored: readonly StoredDescriptor[]): undefined | Promise<undefined> {
  const groups = stored.filter((descriptor) => descriptor.kind === "grouped");
  const counted = groups.length === 0 ? stored : stored.filter((descriptor) => descriptor.kind === "counted");
  const applied = counted.length === 0 ? undefined : applyCounted(store, counted as readonly CountedDescriptor[]);
  if (groups.length === 0) return applied;
  const appliedGroups = applyGrouped(store, groups);
  if (applied === undefined) return appliedGroups;
  return Promise.all([applied, appliedGroups]).then(() => undefined);
}

function applyGrouped(store: CounterStore, groups: readonly GroupedDescriptor[]): undefined | Promise<undefined> {
  const counts = applyGroups(store, groups);
  if (!(counts instanceof Promise)) {
    setBefore(groups, counts);
    return undefined;
  }
  return counts.then((found) => {
    setBefore(groups, found);
    return undefined;
  });
}

/** The configuration has no group where the store cannot count it. */
export function applyGroups(store: CounterStore, groups: readonly GroupStep[]): GroupCounts | Promise<GroupCounts> {
  if (store.applyGroups === undefined) throw new Error("the store has no groups of counters");
  return store.applyGroups(groups);
}

function setBefore(groups: readonly GroupedDescriptor[], counts: GroupCounts): void {
  for (let i = 0; i < groups.length; i++) {
    const group = groups[i];
    if (group !== undefined) group.before = counts[i] ?? [];
  }
}

function applyCounted(store: CounterStore, counted: readonly CountedDescriptor[]): undefined | Promise<undefined> {
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
function excludeCachedOver(
  stored: readonly StoredDescriptor[],
  nowSeconds: number,
  cache: OverLimitCache,
): readonly StoredDescriptor[] {
  for (const descriptor of stored) {
    if (descriptor.requestedHits < 0) cache.countRefund();
    else if (descriptor.kind === "grouped") descriptor.cachedOver = cachedGroup(descriptor, nowSeconds, cache);
    else descriptor.isCachedOver = cache.isOver(descriptor.key, descriptor.limit.requestsPerUnit);
    descriptor.refundsBefore = cache.refunds;
  }
  return stored.filter((descriptor) =>
    descriptor.kind === "grouped" ? descriptor.cachedOver === undefined : !descriptor.isCachedOver,
  );
}

/** If some counters would exceed their limits, sets the hits of the others to 0. Refunds keep their hits. */
function countOnlyExceeding(stored: readonly StoredDescriptor[]): void {
  const exceeds = stored.map(wouldExceed);
  if (!exceeds.includes(true)) return;
  for (let i = 0; i < stored.length; i++) {
    const descriptor = stored[i];
    if (descriptor !== undefined && descriptor.hits > 0 && exceeds[i] !== true) descriptor.hits = 0;
  }
}

/** Whether a descriptor whose counters were read would exceed a limit. */
function wouldExceed(descriptor: StoredDescriptor): boolean {
  const { hits } = descriptor;
  if (descriptor.kind === "counted") return descriptor.after + hits > descriptor.limit.requestsPerUnit;
  return descriptor.counters.some(({ limit }, i) => (descriptor.before[i]?.before ?? 0) + hits > limit);
}
