/** Lets the store count what a call planned, and compares: from planned descriptors to their statuses. */
import type { RateLimitStats } from "../stats.ts";
import type { CounterStore } from "../store/counter-store.ts";
import type { OverLimitCache } from "./over-limit-cache.ts";
import type { CountedDescriptor } from "./plan.ts";
import type { DescriptorStatus } from "./rate-limit.ts";

export interface CountOptions {
  readonly store: CounterStore;
  readonly stats: RateLimitStats;
  /** Absent: every call asks the store. */
  readonly overLimitCache?: OverLimitCache;
  /** A call that one limit would refuse counts for that limit only (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT). */
  readonly stopsAtOverLimit: boolean;
  /** A check with 0 hits of an exactly used-up limit is over it (STRICT_ZERO_HIT); the reference lets it pass. */
  readonly strictZeroHit: boolean;
}

/**
 * Counts and fills in `after`. Answers synchronously when the store does; a promise of it rejects with `StoreError`.
 */
export function countDescriptors(
  counted: readonly CountedDescriptor[],
  options: CountOptions,
): undefined | Promise<undefined> {
  const { store, stopsAtOverLimit } = options;
  const { overLimitCache } = options;
  const asked = overLimitCache === undefined ? counted : withoutKnownOver(counted, overLimitCache);
  if (asked.length === 0) return undefined;
  if (!stopsAtOverLimit) return apply(store, asked);
  if (asked.length < counted.length) {
    for (const descriptor of asked) if (descriptor.hits > 0) descriptor.hits = 0;
    return apply(store, asked);
  }
  const before = store.apply(asked.map((descriptor) => ({ ...descriptor, hits: 0 })));
  if (!(before instanceof Promise)) {
    holdBack(asked, before);
    return apply(store, asked);
  }
  return before.then((values) => {
    holdBack(asked, values);
    return apply(store, asked);
  });
}

/** Compares, counts for the metrics, and fills in `status`. */
export function settleDescriptor(descriptor: CountedDescriptor, nowSeconds: number, options: CountOptions): void {
  const { stats } = options;
  const { askedHits, after, limit, series, rule } = descriptor;
  if (askedHits < 0) {
    series.counts.totalNegativeHits -= askedHits;
    options.overLimitCache?.refunded();
    descriptor.status = statusOf(descriptor, false, nowSeconds);
    return;
  }
  series.counts.totalHits += askedHits;
  let isOver = true;
  if (descriptor.isKnownOver) stats.countCachedOverLimit(series.counts, askedHits, rule.shadowMode);
  else {
    isOver =
      after > limit.requestsPerUnit || (options.strictZeroHit && askedHits === 0 && after >= limit.requestsPerUnit);
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
      options.overLimitCache?.remember(key, over, nowSeconds);
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
    fillIn(counted, values);
    return undefined;
  }
  return values.then((settled) => {
    fillIn(counted, settled);
    return undefined;
  });
}

function fillIn(counted: readonly CountedDescriptor[], values: readonly number[]): void {
  for (let i = 0; i < counted.length; i++) {
    const descriptor = counted[i];
    if (descriptor !== undefined) descriptor.after = values[i] ?? 0;
  }
}

/** Marks the counters known to be over their limit and returns the others. A refund ends such knowledge. */
function withoutKnownOver(counted: readonly CountedDescriptor[], cache: OverLimitCache): readonly CountedDescriptor[] {
  for (const descriptor of counted) {
    if (descriptor.askedHits < 0) cache.refunded();
    else descriptor.isKnownOver = cache.isOver(descriptor.key, descriptor.limit.requestsPerUnit);
    descriptor.refundsBefore = cache.refunds;
  }
  return counted.filter((descriptor) => !descriptor.isKnownOver);
}

/** If some counter would cross its limit, only those that would are counted. Refunds always are. */
function holdBack(counted: readonly CountedDescriptor[], before: readonly number[]): void {
  const crosses = counted.map(({ hits, limit }, i) => (before[i] ?? 0) + hits > limit.requestsPerUnit);
  if (!crosses.includes(true)) return;
  for (let i = 0; i < counted.length; i++) {
    const descriptor = counted[i];
    if (descriptor !== undefined && descriptor.hits > 0 && crosses[i] !== true) descriptor.hits = 0;
  }
}
