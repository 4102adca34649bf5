/** Changes to the counters of a descriptor by an operator: finds them as a call would, in the current windows. */
import type { RateLimitConfig, Rule } from "../config/rule.ts";
import { type CounterChange, maxCount } from "../model/counter-store.ts";
import { keepSecondsOf } from "../model/limit-window.ts";
import type { DescriptorEntry } from "../model/rate-limit.ts";
import type { KeyOptions } from "./keys.ts";
import { findRule } from "./match.ts";
import { groupCounters, plainCounter } from "./plan.ts";

/** The counters to change. */
export interface CounterTarget {
  readonly domain: string;
  /** The entries of a descriptor, in order; at least one. */
  readonly entries: readonly DescriptorEntry[];
  /** The place of a limit in `rate_limits`, from 0; absent: all limits of the descriptor. */
  readonly limit?: number;
}

/**
 * Returns the changes that set the counters to `count`, or delete them if it is 0. Returns the problem as a string if
 * there is no such counter.
 * @param count 0 to `maxCount`
 * @param nowMs milliseconds since the epoch, on the wall clock
 */
export function counterChanges(
  config: RateLimitConfig | undefined,
  { domain, entries, limit }: CounterTarget,
  count: number,
  { nowMs, ...options }: KeyOptions & { readonly nowMs: number },
): readonly CounterChange[] | string {
  const level = config?.domains.get(domain);
  if (level === undefined) return "the domain has no limits";
  const rule = findRule(level, entries);
  if (rule?.limit === undefined) return "no limit matches the descriptor; /match explains why";
  const counters = countersOf(rule, entries, nowMs, options);
  if (limit !== undefined && limit >= counters.length) {
    return `the descriptor has ${counters.length} limits, so limit must be less`;
  }
  const chosen = limit === undefined ? counters : counters.slice(limit, limit + 1);
  return chosen.map((counter) => (count === 0 ? counter : { ...counter, count: Math.min(count, maxCount) }));
}

/** Returns a deletion of each counter of a rule. */
function countersOf(
  rule: Rule,
  entries: readonly DescriptorEntry[],
  nowMs: number,
  options: KeyOptions,
): readonly CounterChange[] {
  const nowSeconds = Math.floor(nowMs / 1_000);
  if (rule.group === undefined) {
    const { key, windowSeconds, windowEndSeconds, keepSeconds } = plainCounter(entries, rule, nowSeconds, options);
    const keep = keepSeconds ?? windowSeconds;
    return [{ kind: "plain", key, windowSeconds, windowEndSeconds, keepSeconds: keep, subWindow: 0 }];
  }
  return groupCounters(entries, rule, rule.group.limits, { nowMs, windowMs: nowMs }, options).map(
    ({ counter, windowSeconds }) => {
      const { kind, key } = counter;
      if (kind === "aligned") {
        const { windowEndSeconds, keepSeconds } = counter;
        return { kind, key, windowSeconds, windowEndSeconds, keepSeconds, subWindow: 0 };
      }
      const { subWindow } = counter;
      const keepSeconds = keepSecondsOf(windowSeconds);
      return { kind, key, windowSeconds, windowEndSeconds: nowSeconds + windowSeconds, keepSeconds, subWindow };
    },
  );
}
