/**
 * Plans what a call will count: the rule or override, the counter and the hits of each descriptor. Nothing is counted
 * here, so a call with an invalid descriptor is rejected as a whole and has no effect.
 */
import type { RateLimitConfig, Rule } from "../config/rule.ts";
import type { RateLimitStats, RuleSeries } from "../stats.ts";
import { type CounterStep, maxCount } from "../model/counter-store.ts";
import { counterKey, type KeyOptions, runtimeSegments } from "./keys.ts";
import { findRule } from "./match.ts";
import { readOverride } from "./override.ts";
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
  /** `OverLimitCache.refunds` before the store is queried. */
  refundsBefore: number;
  status: DescriptorStatus;
}

/** A descriptor without a limit: it has no rule, an unlimited one, or one that another replaces. */
export interface UncountedDescriptor {
  readonly kind: "uncounted";
  readonly status: DescriptorStatus;
  /** Whether a rule says "unlimited". Such a descriptor is not a quota, even if all limits are quotas. */
  readonly isUnlimited: boolean;
}

/** A descriptor of a call, in the call's order. `counted` needs the store, `uncounted` has its status already. */
export type PlannedDescriptor = CountedDescriptor | UncountedDescriptor;

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
 * @param nowSeconds whole seconds since the epoch
 * @throws InvalidDescriptorError
 */
export function planDescriptors(
  config: RateLimitConfig,
  request: RateLimitRequest,
  nowSeconds: number,
  options: PlanOptions,
): readonly PlannedDescriptor[] {
  const { domain, descriptors } = request;
  const requested = descriptors.map((descriptor, i) => resolveDescriptor(config, request, descriptor, i));
  if (!config.domains.has(domain)) {
    for (let i = 0; i < requested.length; i++) options.stats.countDomainNotFound(domain);
    return requested.map(() => noLimit);
  }
  const replaced = replacedNames(requested);
  return requested.map((descriptor) => {
    const { rule } = descriptor;
    if (rule === undefined) return noLimit;
    if (rule.limit === undefined) return unlimited;
    if (replaced?.has(rule.name) === true) return noLimit;
    return planCounted(descriptor, rule, rule.limit, nowSeconds, options);
  });
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
  const { windowSeconds } = rule;
  const windowStart = nowSeconds - (nowSeconds % windowSeconds);
  return {
    kind: "counted",
    key: counterKey(options, rule, entries, windowStart),
    hits,
    windowSeconds,
    windowEndSeconds: windowStart + windowSeconds,
    rule,
    limit,
    headerPolicy: rule.headerPolicy,
    isQuota: quotaMode || rule.quotaMode,
    series: seriesOf(rule, entries, stats),
    requestedHits: hits,
    after: 0,
    isCachedOver: false,
    refundsBefore: 0,
    status: notCountedYet,
  };
}

function seriesOf(rule: Rule, entries: readonly DescriptorEntry[], stats: RateLimitStats): RuleSeries {
  if (rule.hasRuntimeMetric) {
    const segments = runtimeSegments(rule, entries);
    const series = stats.ofValues(`${rule.domain}.${segments.join(".")}`, rule.domain, segments);
    if (series !== undefined) return series;
  }
  return stats.ofRule(rule.path, rule.domain, rule.segments);
}
