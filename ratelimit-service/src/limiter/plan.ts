/**
 * What a call is about to count: each descriptor's rule or override, its counter and its price. Nothing is counted here,
 * so a call with a descriptor that makes no sense is refused as a whole and leaves no trace.
 */
import type { DescriptorLevel, RateLimitConfig, Rule } from "../config/rule.ts";
import type { RateLimitStats, RuleSeries } from "../stats.ts";
import type { CounterStep } from "../store/counter-store.ts";
import { counterKey, overrideSegments, runtimeSegments } from "./keys.ts";
import { findRule } from "./match.ts";
import { type OverrideLimit, readOverride } from "./override.ts";
import {
  type CurrentLimit,
  type Descriptor,
  type DescriptorEntry,
  type DescriptorStatus,
  type JsonObject,
  type LimitOverride,
  type RateLimitRequest,
  unlimitedRemaining,
} from "./rate-limit.ts";

/** A descriptor with a counter, from its plan to its status; also the step that the store takes for it. */
export interface CountedDescriptor extends CounterStep {
  readonly kind: "counted";
  readonly limit: CurrentLimit;
  readonly headerPolicy: string;
  readonly isShadow: boolean;
  readonly isQuota: boolean;
  readonly metadata: JsonObject | undefined;
  readonly series: RuleSeries;
  /** What the descriptor costs; below 0 for a refund. */
  readonly askedHits: number;
  /** What the store is to count: `askedHits`, or 0 when the call is known to be refused elsewhere. */
  hits: number;
  /** The counter's value after its step. */
  after: number;
  /** Known to be over its limit without asking the store. */
  isKnownOver: boolean;
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

export interface PlanOptions {
  readonly stats: RateLimitStats;
  /** Stands before every counter key (CACHE_KEY_PREFIX). */
  readonly cacheKeyPrefix: string;
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
  const { domain: domainName, descriptors } = request;
  for (let i = 0; i < descriptors.length; i++) checkEntries(i, descriptors[i]?.entries ?? []);
  const domain = config.domains.get(domainName);
  const found = descriptors.map((descriptor, i) => findLimit(domain, descriptor, i));
  const replaced = namesReplaced(found);
  return descriptors.map((descriptor, i) => {
    const hits = priceOf(request, descriptor, i);
    const limit = found[i];
    if (domain === undefined) options.stats.countDomainNotFound(domainName);
    if (limit === undefined) return noLimit;
    if (limit.kind === "rule") {
      const { rule } = limit;
      if (rule.limit === undefined) return unlimited;
      if (replaced?.has(rule.name) === true) return noLimit;
      const series = seriesOf(rule, descriptor.entries, options.stats);
      const applied = { limit: rule.limit, windowSeconds: rule.windowSeconds, headerPolicy: rule.headerPolicy };
      return counted(request, descriptor, { applied, rule, series, hits, nowSeconds }, options);
    }
    const series = overrideSeriesOf(domainName, descriptor.entries, options.stats);
    return counted(
      request,
      descriptor,
      { applied: limit.override, rule: undefined, series, hits, nowSeconds },
      options,
    );
  });
}

type FoundLimit =
  | { readonly kind: "rule"; readonly rule: Rule }
  | { readonly kind: "override"; readonly override: OverrideLimit };

function findLimit(domain: DescriptorLevel | undefined, descriptor: Descriptor, i: number): FoundLimit | undefined {
  // An override is checked even where it will not be used, so that a faulty client learns of it early.
  const override = descriptor.limit === undefined ? undefined : checkedOverride(descriptor.limit, i);
  if (domain === undefined) return undefined;
  if (override !== undefined) return { kind: "override", override };
  const rule = findRule(domain, descriptor.entries);
  return rule === undefined ? undefined : { kind: "rule", rule };
}

function checkedOverride(limit: LimitOverride, i: number): OverrideLimit {
  const override = readOverride(limit);
  if (typeof override === "string") throw new InvalidDescriptorError(i, override);
  return override;
}

function checkEntries(i: number, entries: readonly DescriptorEntry[]): void {
  for (let at = 0; at < entries.length; at++) {
    if (entries[at]?.key === "") throw new InvalidDescriptorError(i, `entry ${at} has an empty key`);
  }
}

/** Names of limits that step back; `undefined`, the rule, when none does. */
function namesReplaced(found: readonly (FoundLimit | undefined)[]): ReadonlySet<string> | undefined {
  let names: Set<string> | undefined;
  for (const limit of found) {
    if (limit?.kind !== "rule") continue;
    for (const name of limit.rule.replaces) names = (names ?? new Set()).add(name);
  }
  return names;
}

/** Hits of a descriptor: its own, else the request's, and at least 1 where neither says; negative for a refund. */
function priceOf(request: RateLimitRequest, descriptor: Descriptor, i: number): number {
  const hits = descriptor.hitsAddend ?? Math.max(1, request.hitsAddend);
  if (!Number.isSafeInteger(hits) || hits < 0) {
    throw new InvalidDescriptorError(i, `hits_addend ${hits} must be 0 to ${Number.MAX_SAFE_INTEGER}`);
  }
  return descriptor.isNegativeHits === true && hits !== 0 ? -hits : hits;
}

function seriesOf(rule: Rule, entries: readonly DescriptorEntry[], stats: RateLimitStats): RuleSeries {
  if (rule.hasRuntimeMetric) {
    const segments = runtimeSegments(rule, entries);
    const series = stats.ofValues(`${rule.domain}.${segments.join(".")}`, rule.domain, segments);
    if (series !== undefined) return series;
  }
  return stats.ofRule(rule.path, rule.domain, rule.segments);
}

/** Overrides come without a rule; past the bound they all count under one name. */
function overrideSeriesOf(domain: string, entries: readonly DescriptorEntry[], stats: RateLimitStats): RuleSeries {
  const segments = overrideSegments(entries);
  const series = stats.ofValues(`${domain}.${segments.join(".")}`, domain, segments);
  return series ?? stats.ofRule(`${domain}.override`, domain, ["override"]);
}

function counted(
  request: RateLimitRequest,
  descriptor: Descriptor,
  found: {
    readonly applied: OverrideLimit;
    readonly rule: Rule | undefined;
    readonly series: RuleSeries;
    readonly hits: number;
    readonly nowSeconds: number;
  },
  options: PlanOptions,
): CountedDescriptor {
  const { applied, rule, series, hits } = found;
  const windowStart = found.nowSeconds - (found.nowSeconds % applied.windowSeconds);
  return {
    kind: "counted",
    key: counterKey(options.cacheKeyPrefix, request.domain, descriptor.entries, rule, windowStart),
    hits,
    windowSeconds: applied.windowSeconds,
    windowEndSeconds: windowStart + applied.windowSeconds,
    limit: applied.limit,
    headerPolicy: applied.headerPolicy,
    isShadow: rule?.shadowMode ?? false,
    isQuota: options.quotaMode || (rule?.quotaMode ?? false),
    metadata: rule?.metadata,
    series,
    askedHits: hits,
    after: 0,
    isKnownOver: false,
    status: undecided,
  };
}
