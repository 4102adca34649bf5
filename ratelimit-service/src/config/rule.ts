/**
 * The configuration in use, as a tree per domain. The tree is plain data (maps, arrays, strings), so that it can be
 * posted to worker threads. It contains everything that matching needs: composite keys, split wildcards, the levels
 * above each rule. `descriptor-tree.ts` builds it, the limiter reads it.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import { isSecretValue, redactValue } from "@gatewayproxy/runtime/redaction";
import type { CalendarWindow, LimitWindow } from "../model/limit-window.ts";
import type { CurrentLimit, JsonObject } from "../model/rate-limit.ts";

/** One node of the tree: an entry that a descriptor may have at this depth. */
export interface DescriptorNode {
  /** `key` or `key_value`; unique among its siblings. */
  readonly composite: string;
  readonly key: string;
  /** Empty for a node that matches every value of its key. */
  readonly value: string;
  /** The composite split at each `*`; absent without one. */
  readonly wildcardParts?: readonly string[];
  /** Whether metric keys contain the value of the call instead of the configured one. */
  readonly valueToMetric: boolean;
  /** Whether all values that match this wildcard share one counter. */
  readonly shareThreshold: boolean;
  readonly rule?: Rule;
  readonly children: DescriptorLevel;
}

/** The child nodes of one level. */
export interface DescriptorLevel {
  /** By composite key; includes wildcards, under their own text. */
  readonly byComposite: ReadonlyMap<string, DescriptorNode>;
  /** In the order of the configuration; the first match wins. */
  readonly wildcards: readonly DescriptorNode[];
}

/** A node's `rate_limit` with the flags of its descriptor; or, in the same shape, the limit override of a call. */
export interface Rule {
  readonly domain: string;
  /** `domain.key_value.key`: the name in metrics and dumps, unique in a configuration. */
  readonly path: string;
  /** Composite keys from the top level to the rule's own. */
  readonly segments: readonly string[];
  /** Absent for an unlimited rule. */
  readonly limit?: CurrentLimit;
  /** Absent for fixed windows, and for a group. */
  readonly calendar?: CalendarWindow;
  /** Present for a sliding window and for several limits; `limit` is then the first of them. */
  readonly group?: LimitGroup;
  /** 0 for an unlimited rule. */
  readonly windowSeconds: number;
  /** This limit's part of an `x-ratelimit-limit` header, such as `, 10;w=60;name="…"`; empty for an unlimited rule. */
  readonly headerPolicy: string;
  readonly name: string;
  /** Names of limits that do not apply when this one matches in the same call. */
  readonly replaces: readonly string[];
  readonly shadowMode: boolean;
  readonly quotaMode: boolean;
  readonly detailedMetric: boolean;
  readonly metadata?: JsonObject;
  /** The nodes from the top level to the rule's own, one per entry of a matching descriptor; empty for an override. */
  readonly levels: readonly DescriptorNode[];
  /** Whether some level has `share_threshold`. */
  readonly sharesThreshold: boolean;
  /** Whether the series is named after values of the call, in part or whole. */
  readonly hasRuntimeMetric: boolean;
  /** Location of the `rate_limit`; absent for xDS. */
  readonly location?: SourceLocation;
}

/** Limits that count a call all together, or not at all. */
export interface LimitGroup {
  /** At least one, with different windows. */
  readonly limits: readonly GroupLimit[];
  /** Whether hits beyond a limit are counted. */
  readonly countsDenied: boolean;
}

/** One limit of a group. */
export interface GroupLimit {
  readonly limit: CurrentLimit;
  readonly window: LimitWindow;
}

/** All domains by name. */
export interface RateLimitConfig {
  readonly domains: ReadonlyMap<string, DescriptorLevel>;
  /**
   * The source that has had no configuration yet, such as `the xDS server`. A call for an unknown domain fails until
   * then.
   */
  readonly missing?: string;
}

/** Returns every rule of a configuration, in its order. */
export function* rulesOf(config: RateLimitConfig): Generator<Rule> {
  for (const level of config.domains.values()) yield* rulesBelow(level);
}

function* rulesBelow(level: DescriptorLevel): Generator<Rule> {
  for (const node of level.byComposite.values()) {
    if (node.rule !== undefined) yield node.rule;
    yield* rulesBelow(node.children);
  }
}

/**
 * Formats a level of the configuration for operators. Shows configured values, whatever their key is called, except
 * those in the form of credentials: names of metrics stay envoyproxy/ratelimit's.
 */
export function shownComposite(key: string, value: string): string {
  return value === "" ? key : `${key}_${isSecretValue(value) ? redactValue(value, true).text : value}`;
}
