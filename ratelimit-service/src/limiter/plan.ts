/**
 * What a call is about to count: each descriptor's rule or override, its counter and its price. Nothing is counted here,
 * so a call with a descriptor that makes no sense is refused as a whole and leaves no trace.
 */
import type { RateLimitConfig, Rule } from "../config/rule.ts";
import type { RateLimitStats, RuleSeries } from "../stats.ts";
import { type CounterStep, maxCount } from "../store/counter-store.ts";
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
} from "./rate-limit.ts";

/** A descriptor with a counter, from its plan to its status; also the step that the store takes for it. */
export interface CountedDescriptor extends CounterStep {
  readonly kind: "counted";
  readonly rule: Rule;
  /** The rule's; it has one, or nothing would be counted. */
  readonly limit: CurrentLimit;
  /** As the rule's, for the headers. */
  readonly headerPolicy: string;
  /** By the rule, or because all limits are quotas. */
  readonly isQuota: boolean;
  readonly series: RuleSeries;
  /** What the descriptor costs; below 0 for a refund. */
  readonly askedHits: number;
  /** What the store is to count: `askedHits`, or 0 when the call is known to be refused elsewhere. */
  hits: number;
  /** The counter's value after its step. */
  after: number;
  /** Known to be over its limit without asking the store. */
  isKnownOver: boolean;
  /** As `OverLimitCache.refunds` before the store is asked. */
  refundsBefore: number;
  status: DescriptorStatus;
}

/** A descriptor that nothing limits: no rule, an unlimited one, or one that another replaces. */
export interface FreeDescriptor {
  readonly kind: "free";
  readonly status: DescriptorStatus;
  /** A rule says that there is no limit, so it is no quota either, even if all limits are quotas. */
  readonly isUnlimited: boolean;
}

export type PlannedDescriptor = CountedDescriptor | FreeDescriptor;

/** Thrown for a descriptor that makes no sense; the message says which and why. */
export class InvalidDescriptorError extends Error {
  constructor(descriptor: number, fault: string) {
    super(`descriptor ${descriptor}: ${fault}`);
    this.name = "InvalidDescriptorError";
  }
}

export interface PlanOptions extends KeyOptions {
  readonly stats: RateLimitStats;
  /** Every limit is a quota (QUOTA_MODE). */
  readonly quotaMode: boolean;
}

const noLimit: FreeDescriptor = { kind: "free", status: { code: "OK", limitRemaining: 0 }, isUnlimited: false };
const unlimited: FreeDescriptor = {
  kind: "free",
  status: { code: "OK", limitRemaining: unlimitedRemaining },
  isUnlimited: true,
};
const undecided: DescriptorStatus = { code: "UNKNOWN", limitRemaining: 0 };

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
  const asked = descriptors.map((descriptor, i) => askedOf(config, request, descriptor, i));
  if (!config.domains.has(domain)) {
    for (let i = 0; i < asked.length; i++) options.stats.countDomainNotFound(domain);
    return asked.map(() => noLimit);
  }
  const replaced = namesReplaced(asked);
  return asked.map((one) => {
    const { rule } = one;
    if (rule === undefined) return noLimit;
    if (rule.limit === undefined) return unlimited;
    if (replaced?.has(rule.name) === true) return noLimit;
    return counted(one, rule, rule.limit, nowSeconds, options);
  });
}

/** A descriptor that makes sense, with its rule and its price. */
interface AskedDescriptor {
  readonly entries: readonly DescriptorEntry[];
  /** Configured or brought along; absent where the domain or the rule is. */
  readonly rule: Rule | undefined;
  /** Its own hits, else the request's, and at least 1 where neither says; below 0 for a refund. */
  readonly hits: number;
}

function askedOf(
  config: RateLimitConfig,
  request: RateLimitRequest,
  { entries, limit, hitsAddend, isNegativeHits }: Descriptor,
  index: number,
): AskedDescriptor {
  for (let at = 0; at < entries.length; at++) {
    if (entries[at]?.key === "") throw new InvalidDescriptorError(index, `entry ${at} has an empty key`);
  }
  const asked = hitsAddend ?? Math.max(1, request.hitsAddend);
  if (!Number.isInteger(asked) || asked < 0) {
    throw new InvalidDescriptorError(index, `hits_addend ${asked} must be a whole number from 0`);
  }
  // Refused, a call would fail, and pass where the caller's proxy passes what fails.
  const hits = Math.min(asked, maxCount);
  const level = config.domains.get(request.domain);
  // An override is checked even where the domain is not known, so that a faulty client learns of it early.
  const override = limit === undefined ? undefined : readOverride(request.domain, limit);
  if (typeof override === "string") throw new InvalidDescriptorError(index, override);
  const rule = override ?? (level === undefined ? undefined : findRule(level, entries));
  return { entries, rule, hits: isNegativeHits === true && hits !== 0 ? -hits : hits };
}

/** Names of limits that step back; `undefined`, the common case, when none does. */
function namesReplaced(asked: readonly AskedDescriptor[]): ReadonlySet<string> | undefined {
  let names: Set<string> | undefined;
  for (const { rule } of asked) {
    if (rule === undefined) continue;
    for (const name of rule.replaces) names = (names ?? new Set()).add(name);
  }
  return names;
}

function counted(
  { entries, hits }: AskedDescriptor,
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
    askedHits: hits,
    after: 0,
    isKnownOver: false,
    refundsBefore: 0,
    status: undecided,
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
