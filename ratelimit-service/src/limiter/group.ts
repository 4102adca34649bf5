/**
 * Sliding windows, and several limits of one descriptor: their counters count a call all together or not at all
 * (`CounterStore.applyGroups`). A descriptor has one status in the protocol, so that of one limit is shown: for a
 * denied call, of those that deny it the one that resets last; otherwise the one with the least remaining.
 */
import { type GroupCount, type GroupCounter, isCounted, maxCount } from "../model/counter-store.ts";
import { keepSecondsOf, subWindowLeavesMs } from "../model/limit-window.ts";
import type { DescriptorStatus } from "../model/rate-limit.ts";
import type { RateLimitStats } from "../stats.ts";
import type { OverLimitCache } from "./over-limit-cache.ts";
import type { GroupedDescriptor } from "./plan.ts";

/** The metrics, and the cache if there is one. */
interface GroupOptions {
  readonly stats: RateLimitStats;
  readonly overLimitCache?: OverLimitCache;
}

/** One limit of a group after the step. */
interface LimitOutcome {
  readonly index: number;
  readonly isOver: boolean;
  readonly before: number;
  readonly remaining: number;
  readonly resetSeconds: number;
}

/** Compares the counters with their limits, updates the metrics and the cache, and sets `status`. */
export function settleGroup(group: GroupedDescriptor, nowMs: number, options: GroupOptions): void {
  const { requestedHits, series } = group;
  const { overLimitCache, stats } = options;
  if (group.cachedOver !== undefined) {
    const { index, untilSeconds } = group.cachedOver;
    series.counts.totalHits += requestedHits;
    stats.countCachedOverLimit(series.counts, requestedHits, group.rule.shadowMode);
    const resetSeconds = Math.max(1, untilSeconds - Math.floor(nowMs / 1_000));
    group.status = statusOf(group, { index, isOver: true, before: 0, remaining: 0, resetSeconds });
    return;
  }
  const outcomes = outcomesOf(group, nowMs);
  const shown = shownOutcome(outcomes);
  if (shown === undefined) return;
  group.status = statusOf(group, shown);
  if (requestedHits < 0) {
    series.counts.totalNegativeHits -= requestedHits;
    overLimitCache?.countRefund();
    return;
  }
  series.counts.totalHits += requestedHits;
  stats.countOutcome(series.counts, {
    hits: group.hits,
    before: shown.before,
    after: shown.before + group.hits,
    requestsPerUnit: limitOf(group, shown.index),
    isOverLimit: shown.isOver,
    isShadow: group.rule.shadowMode,
  });
  if (overLimitCache !== undefined) cacheOver(group, outcomes, nowMs, overLimitCache);
}

/** Returns the first limit that the cache knows to be over; `undefined` for none. */
export function cachedGroup(
  { counters, countsDenied }: GroupedDescriptor,
  nowSeconds: number,
  cache: OverLimitCache,
): GroupedDescriptor["cachedOver"] {
  if (countsDenied) return undefined;
  for (const [index, counter] of counters.entries()) {
    const untilSeconds = cache.overUntil(counter.key, counter.limit);
    if (untilSeconds !== undefined && mayLastUntil(counter, untilSeconds, nowSeconds)) return { index, untilSeconds };
  }
  return undefined;
}

/**
 * Whether a cached limit can still be over. The key of a sliding window does not name its time, so its entry may be
 * old, or from a clock that was ahead.
 */
function mayLastUntil(counter: GroupCounter, untilSeconds: number, nowSeconds: number): boolean {
  if (untilSeconds <= nowSeconds) return false;
  return counter.kind === "aligned" || untilSeconds - nowSeconds <= keepSecondsOf(counter.windowSeconds);
}

function outcomesOf(group: GroupedDescriptor, nowMs: number): readonly LimitOutcome[] {
  const { requestedHits, hits } = group;
  const counted = isCounted(group, group.before);
  return group.counters.map(({ limit }, index) => {
    const count = group.before[index] ?? { before: 0 };
    const { before } = count;
    // A check is over a used-up limit: hits beyond it are not counted, so it could not be over any other.
    const isOver = requestedHits > 0 ? before + requestedHits > limit : requestedHits === 0 && before >= limit;
    const after = counted ? Math.min(maxCount, Math.max(0, before + hits)) : before;
    const resetSeconds = secondsToReset(group, index, count, nowMs, counted && hits > 0 && !isOver);
    return { index, isOver, before, remaining: Math.max(0, limit - after), resetSeconds };
  });
}

function secondsToReset(
  { counters }: GroupedDescriptor,
  index: number,
  { freesWith }: GroupCount,
  nowMs: number,
  hasCounted: boolean,
): number {
  const counter = counters[index];
  if (counter === undefined) return 1;
  // The window of a refund may have ended.
  if (counter.kind === "aligned") return Math.max(1, counter.windowEndSeconds - Math.floor(nowMs / 1_000));
  const { windowSeconds, subWindow } = counter;
  const leaving = freesWith ?? (hasCounted ? subWindow : undefined);
  if (leaving === undefined) return windowSeconds;
  return Math.max(1, Math.ceil((subWindowLeavesMs(windowSeconds, leaving) - nowMs) / 1_000));
}

function shownOutcome(outcomes: readonly LimitOutcome[]): LimitOutcome | undefined {
  const denying = outcomes.filter(({ isOver }) => isOver);
  const [first, ...others] = denying.length > 0 ? denying : outcomes;
  if (first === undefined) return undefined;
  return others.reduce((shown, each) => (isShownBefore(each, shown) ? each : shown), first);
}

function isShownBefore(a: LimitOutcome, b: LimitOutcome): boolean {
  if (!a.isOver && a.remaining !== b.remaining) return a.remaining < b.remaining;
  return a.resetSeconds > b.resetSeconds;
}

function statusOf(
  { limits, rule }: GroupedDescriptor,
  { index, isOver, remaining, resetSeconds }: LimitOutcome,
): DescriptorStatus {
  const limit = limits[index]?.limit;
  return {
    code: isOver && !rule.shadowMode ? "OVER_LIMIT" : "OK",
    ...(limit === undefined ? {} : { currentLimit: limit }),
    limitRemaining: remaining,
    durationUntilResetSeconds: resetSeconds,
  };
}

/** Caches the limits that are used up, so that even a call of one hit would be denied. */
function cacheOver(
  group: GroupedDescriptor,
  outcomes: readonly LimitOutcome[],
  nowMs: number,
  cache: OverLimitCache,
): void {
  if (group.countsDenied) return;
  const nowSeconds = Math.floor(nowMs / 1_000);
  for (const { index, isOver, before, resetSeconds } of outcomes) {
    const counter = group.counters[index];
    if (counter === undefined || !isOver || before < counter.limit) continue;
    // The reset of several hits is later than that of one.
    if (counter.kind === "sliding" && group.requestedHits > 1) continue;
    const over = {
      requestsPerUnit: counter.limit,
      windowEndSeconds: nowSeconds + resetSeconds,
      refunds: group.refundsBefore,
    };
    cache.set(counter.key, over, nowSeconds);
  }
}

function limitOf({ counters }: GroupedDescriptor, index: number): number {
  return counters[index]?.limit ?? 0;
}
