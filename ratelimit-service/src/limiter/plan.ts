/**
 * Plans what a call will count: the rule or override, the counter and the hits of each descriptor. Nothing is counted
 * here, so a call with an invalid descriptor is rejected as a whole and has no effect.
 */
import { headerPolicy } from "../config/header-policy.ts";
import type { GroupLimit, LimitGroup, RateLimitConfig, Rule } from "../config/rule.ts";
import type { RateLimitStats, RuleSeries } from "../stats.ts";
import {
  type CounterStep,
  type GroupCount,
  type GroupCounter,
  type GroupStep,
  maxCount,
} from "../model/counter-store.ts";
import { counterKey, type KeyOptions, runtimeSegments, taggedKey, windowKey } from "./keys.ts";
import { findRule } from "./match.ts";
import { readOverride } from "./override.ts";
import { subWindowAt } from "@gatewayproxy/runtime/sliding-window";
import { type CalendarWindow, spanAt, subWindowLeavesMs } from "../model/limit-window.ts";
import {
  type CurrentLimit,
  type Descriptor,
  type DescriptorEntry,
  type DescriptorStatus,
  type RateLimitRequest,
  unlimitedRemaining,
} from "../model/rate-limit.ts";

/** A descriptor with a counter, from its plan to its status. It is also the step that is passed to the store. */
export interface CountedDescriptor extends CounterStep {
  readonly kind: "counted";
  readonly rule: Rule;
  /** The limit of the rule, which always has one here. */
  readonly limit: CurrentLimit;
  /** As in the rule, for the headers. */
  readonly headerPolicy: string;
  /** Whether the rule, or the setting for all limits, says that it is a quota. */
  readonly isQuota: boolean;
  readonly series: RuleSeries;
  /** Hits of the descriptor; below 0 for a refund. */
  readonly requestedHits: number;
  /** Hits for the store: `requestedHits`, or 0 when another counter of the call denies it. */
  hits: number;
  /** The counter's value after its step. */
  after: number;
  /** Whether the over-limit cache has it. */
  isCachedOver: boolean;
  /** Whether its counter was read and not changed: it is part of a reservation that does not fit. */
  isOnlyRead: boolean;
  /** `OverLimitCache.refunds` before the store is queried. */
  refundsBefore: number;
  status: DescriptorStatus;
}

/**
 * A descriptor with a sliding window or with several limits, whose counters count a call all together or not at all. It
 * is also the step that is passed to the store.
 */
export interface GroupedDescriptor extends GroupStep {
  readonly kind: "grouped";
  readonly rule: Rule;
  /** The limits of the rule that no other limit of the call replaces, in its order; at least one. */
  readonly limits: readonly GroupLimit[];
  /** The counter of each limit. */
  readonly counters: readonly GroupCounter[];
  /** The parts of all limits. */
  readonly headerPolicy: string;
  readonly isQuota: boolean;
  readonly series: RuleSeries;
  /** As of a counted descriptor. */
  readonly requestedHits: number;
  hits: number;
  /** The state of each counter before the step. */
  before: readonly GroupCount[];
  /** The limit that the over-limit cache knows to be over, and the second in which it ends. */
  cachedOver: { readonly index: number; readonly untilSeconds: number } | undefined;
  /** As of a counted descriptor. */
  isOnlyRead: boolean;
  refundsBefore: number;
  status: DescriptorStatus;
}

/** A descriptor with counters in the store. */
export type StoredDescriptor = CountedDescriptor | GroupedDescriptor;

/** A descriptor without a limit: it has no rule, an unlimited one, or one that another replaces. */
export interface UncountedDescriptor {
  readonly kind: "uncounted";
  readonly status: DescriptorStatus;
  /** Whether a rule says "unlimited". Such a descriptor is not a quota, even if all limits are quotas. */
  readonly isUnlimited: boolean;
}

/** A descriptor of a call, in the call's order. `uncounted` has its status already, the others need the store. */
export type PlannedDescriptor = StoredDescriptor | UncountedDescriptor;

/** Thrown for an invalid descriptor. The message says which one and why. */
export class InvalidDescriptorError extends Error {
  constructor(descriptor: number, problem: string) {
    super(`descriptor ${descriptor}: ${problem}`);
    this.name = "InvalidDescriptorError";
  }
}

/** The settings that change which counters a call uses. */
export interface PlanOptions extends KeyOptions {
  /** Opens the series of rules and values. */
  readonly stats: RateLimitStats;
  /** Whether every limit is a quota (QUOTA_MODE). */
  readonly quotaMode: boolean;
}

const noLimit: UncountedDescriptor = {
  kind: "uncounted",
  status: { code: "OK", limitRemaining: 0 },
  isUnlimited: false,
};
const unlimited: UncountedDescriptor = {
  kind: "uncounted",
  status: { code: "OK", limitRemaining: unlimitedRemaining },
  isUnlimited: true,
};
const notCountedYet: DescriptorStatus = { code: "UNKNOWN", limitRemaining: 0 };

/**
 * Plans every descriptor of a call, in order.
 * @param nowMs milliseconds since the epoch
 * @throws InvalidDescriptorError
 */
export function planDescriptors(
  config: RateLimitConfig,
  request: RateLimitRequest,
  nowMs: number,
  options: PlanOptions,
): readonly PlannedDescriptor[] {
  const { domain, descriptors } = request;
  const requested = descriptors.map((descriptor, i) => resolveDescriptor(config, request, descriptor, i));
  if (!config.domains.has(domain)) {
    for (let i = 0; i < requested.length; i++) options.stats.countDomainNotFound(domain);
    return requested.map(() => noLimit);
  }
  const replaced = replacedNames(requested);
  const reserves = request.reserves === true;
  return requested.map((descriptor) => {
    const { rule, hits } = descriptor;
    if (rule === undefined) return noLimit;
    if (rule.limit === undefined) return unlimited;
    const windowMs = hits < 0 ? refundTimeOf(request, nowMs) : nowMs;
    if (rule.group !== undefined) {
      return planGrouped(descriptor, rule, rule.group, { replaced, nowMs, windowMs, reserves, options });
    }
    if (replaced?.has(rule.name) === true) return noLimit;
    const own = reserves ? { ...descriptor, hits: heldHitsOf(hits, [rule.limit]) } : descriptor;
    return planCounted(own, rule, rule.limit, Math.floor(windowMs / 1_000), options);
  });
}

/** How far the clock of another replica may be ahead. */
const maxAheadMs = 86_400_000;

/**
 * Returns the time whose windows a refund belongs to. That of a clock that is ahead, or was, is in the future: the
 * window of now has not counted it.
 */
function refundTimeOf({ heldAtMs }: RateLimitRequest, nowMs: number): number {
  return Math.min(heldAtMs ?? nowMs, nowMs + maxAheadMs);
}

/** Returns the hits that a reservation counts: at most the smallest limit. A limit of 0 denies it nevertheless. */
function heldHitsOf(hits: number, limits: readonly CurrentLimit[]): number {
  const smallest = Math.max(1, Math.min(...limits.map(({ requestsPerUnit }) => requestsPerUnit)));
  return Math.min(hits, smallest);
}

/** A valid descriptor, with its rule and its hits. */
interface RequestedDescriptor {
  readonly entries: readonly DescriptorEntry[];
  /** The configured rule, or the override of the call; absent where the domain or the rule is unknown. */
  readonly rule: Rule | undefined;
  /** The descriptor's hits, or else the request's, which are at least 1; below 0 for a refund. */
  readonly hits: number;
}

function resolveDescriptor(
  config: RateLimitConfig,
  request: RateLimitRequest,
  { entries, limit, hitsAddend, isNegativeHits }: Descriptor,
  index: number,
): RequestedDescriptor {
  for (let entryIndex = 0; entryIndex < entries.length; entryIndex++) {
    if (entries[entryIndex]?.key === "") {
      throw new InvalidDescriptorError(index, `entry ${entryIndex} has an empty key`);
    }
  }
  const requested = hitsAddend ?? Math.max(1, request.hitsAddend);
  if (!Number.isInteger(requested) || requested < 0) {
    throw new InvalidDescriptorError(index, `hits_addend ${requested} must be a whole number from 0`);
  }
  // A rejected call would fail, and be allowed where the caller's proxy fails open. The cap prevents that.
  const hits = Math.min(requested, maxCount);
  const level = config.domains.get(request.domain);
  // An override is validated even for an unknown domain, so that a faulty client gets the error early.
  const override = limit === undefined ? undefined : readOverride(request.domain, limit);
  if (typeof override === "string") throw new InvalidDescriptorError(index, override);
  const rule = override ?? (level === undefined ? undefined : findRule(level, entries));
  return { entries, rule, hits: isNegativeHits === true && hits !== 0 ? -hits : hits };
}

/**
 * Returns the names of limits that do not apply, because another replaces them; `undefined`, the common case, for none.
 */
function replacedNames(requested: readonly RequestedDescriptor[]): ReadonlySet<string> | undefined {
  let names: Set<string> | undefined;
  for (const { rule } of requested) {
    if (rule === undefined) continue;
    for (const name of rule.replaces) names = (names ?? new Set()).add(name);
  }
  return names;
}

function planCounted(
  { entries, hits }: RequestedDescriptor,
  rule: Rule,
  limit: CurrentLimit,
  nowSeconds: number,
  options: PlanOptions,
): CountedDescriptor {
  const { stats, quotaMode } = options;
  const {
    key,
    windowSeconds,
    windowEndSeconds,
    keepSeconds,
    headerPolicy: policy,
  } = plainCounter(entries, rule, nowSeconds, options);
  return {
    kind: "counted",
    key,
    hits,
    windowSeconds,
    windowEndSeconds,
    keepSeconds,
    rule,
    limit,
    headerPolicy: policy,
    isQuota: quotaMode || rule.quotaMode,
    series: seriesOf(rule, entries, stats),
    requestedHits: hits,
    after: 0,
    isCachedOver: false,
    isOnlyRead: false,
    refundsBefore: 0,
    status: notCountedYet,
  };
}

/** A counter of `CounterStore.apply`, with the window's part of the header. */
type PlainCounter = Omit<CounterStep, "hits"> & { readonly headerPolicy: string };

/** Returns the counter of a rule without a group in the current window. */
export function plainCounter(
  entries: readonly DescriptorEntry[],
  rule: Rule,
  nowSeconds: number,
  options: KeyOptions,
): PlainCounter {
  if (rule.calendar !== undefined) return calendarCounter(entries, rule, rule.calendar, nowSeconds, options);
  const { windowSeconds } = rule;
  const windowStart = nowSeconds - (nowSeconds % windowSeconds);
  return {
    key: counterKey(options, rule, entries, windowStart),
    windowSeconds,
    windowEndSeconds: windowStart + windowSeconds,
    keepSeconds: undefined,
    headerPolicy: rule.headerPolicy,
  };
}

function calendarCounter(
  entries: readonly DescriptorEntry[],
  rule: Rule,
  calendar: CalendarWindow,
  nowSeconds: number,
  options: KeyOptions,
): PlainCounter {
  const { startSeconds, endSeconds } = spanAt(calendar, nowSeconds);
  const windowSeconds = endSeconds - startSeconds;
  return {
    key: windowKey(taggedKey(options, rule, entries), calendar, startSeconds),
    windowSeconds,
    windowEndSeconds: endSeconds,
    keepSeconds: endSeconds - nowSeconds + windowSeconds,
    headerPolicy: rule.limit === undefined ? "" : headerPolicy(rule.limit, windowSeconds),
  };
}

/** The call of a group. */
interface GroupCall {
  readonly replaced: ReadonlySet<string> | undefined;
  readonly nowMs: number;
  /** The time of windows of a fixed begin: `nowMs`, or for a refund that of its reservation. */
  readonly windowMs: number;
  readonly reserves: boolean;
  readonly options: PlanOptions;
}

function planGrouped(
  { entries, hits: requestedHits }: RequestedDescriptor,
  rule: Rule,
  { limits: all, countsDenied }: LimitGroup,
  { replaced, nowMs, windowMs, reserves, options }: GroupCall,
): GroupedDescriptor | UncountedDescriptor {
  const applied = replaced === undefined ? all : all.filter(({ limit }) => !replaced.has(limit.name ?? ""));
  const limits = windowMs === nowMs ? applied : applied.filter(({ window }) => stillCounts(window, windowMs, nowMs));
  if (limits.length === 0) return noLimit;
  const group = limits.map(({ limit }) => limit);
  const hits = reserves ? heldHitsOf(requestedHits, group) : requestedHits;
  const planned = groupCounters(entries, rule, limits, { nowMs, windowMs }, options);
  return {
    kind: "grouped",
    counters: planned.map(({ counter }) => counter),
    hits,
    countsDenied,
    rule,
    limits,
    headerPolicy: limits.map(({ limit }, i) => headerPolicy(limit, planned[i]?.windowSeconds)).join(""),
    isQuota: options.quotaMode || rule.quotaMode,
    series: seriesOf(rule, entries, options.stats),
    requestedHits: hits,
    before: [],
    cachedOver: undefined,
    isOnlyRead: false,
    refundsBefore: 0,
    status: notCountedYet,
  };
}

/** Whether a limit can refund the hits of `heldMs`. A sliding window no longer has them after its length. */
function stillCounts(window: GroupLimit["window"], heldMs: number, nowMs: number): boolean {
  if (window.kind !== "sliding") return true;
  const { windowSeconds } = window;
  return subWindowLeavesMs(windowSeconds, subWindowAt(heldMs, windowSeconds * 1_000)) > nowMs;
}

/**
 * Returns the counters of a group's limits, with the lengths of their windows.
 *
 * @param times `windowMs` is in the windows of a fixed begin, `nowMs` in the sub-window of a sliding one.
 */
export function groupCounters(
  entries: readonly DescriptorEntry[],
  rule: Rule,
  limits: readonly GroupLimit[],
  { nowMs, windowMs }: { readonly nowMs: number; readonly windowMs: number },
  options: KeyOptions,
): readonly { readonly counter: GroupCounter; readonly windowSeconds: number }[] {
  const tagged = taggedKey(options, rule, entries);
  const nowSeconds = Math.floor(windowMs / 1_000);
  return limits.map(({ limit: { requestsPerUnit: limit }, window }) => {
    if (window.kind === "sliding") {
      const { windowSeconds } = window;
      const subWindow = subWindowAt(nowMs, windowSeconds * 1_000);
      const key = windowKey(tagged, window);
      return { counter: { kind: "sliding", key, limit, windowSeconds, subWindow }, windowSeconds };
    }
    const { startSeconds, endSeconds } = spanAt(window, nowSeconds);
    const windowSeconds = endSeconds - startSeconds;
    const key = windowKey(tagged, window, startSeconds);
    const keepSeconds = endSeconds - nowSeconds + windowSeconds;
    return { counter: { kind: "aligned", key, limit, windowEndSeconds: endSeconds, keepSeconds }, windowSeconds };
  });
}

function seriesOf(rule: Rule, entries: readonly DescriptorEntry[], stats: RateLimitStats): RuleSeries {
  if (rule.hasRuntimeMetric) {
    const segments = runtimeSegments(rule, entries);
    const series = stats.ofValues(`${rule.domain}.${segments.join(".")}`, rule.domain, segments);
    if (series !== undefined) return series;
  }
  return stats.ofRule(rule.path, rule.domain, rule.segments);
}
