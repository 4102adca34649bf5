/**
 * The configuration in force, as a tree per domain. The tree is plain data (maps, arrays, strings), so it can be posted
 * to worker threads, and it already holds all that matching needs: composite keys, split wildcards, the chain of levels
 * above each rule. Built by `descriptor-tree.ts`, read by the limiter.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import { isSecretValue, shownValue } from "@gatewayproxy/runtime/redaction";
import type { CurrentLimit, JsonObject } from "../limiter/rate-limit.ts";

/** One place in the tree: an entry that a descriptor may have at this depth. */
export interface DescriptorNode {
  /** `key` or `key_value`; the name among its siblings. */
  readonly composite: string;
  readonly key: string;
  /** Empty for a node that takes every value of its key. */
  readonly value: string;
  /** The composite split at each `*`; absent without one. */
  readonly wildcardParts?: readonly string[];
  /** Metric keys carry the value that came instead of the one configured. */
  readonly valueToMetric: boolean;
  /** All values that match this wildcard count as one. */
  readonly shareThreshold: boolean;
  readonly rule?: Rule;
  readonly children: DescriptorLevel;
}

/** The nodes that may follow at one depth. */
export interface DescriptorLevel {
  /** By composite key; wildcards are among them, under their own text. */
  readonly byComposite: ReadonlyMap<string, DescriptorNode>;
  /** In the order of the configuration; the first that matches wins. */
  readonly wildcards: readonly DescriptorNode[];
}

/** A node's `rate_limit` with the flags of its descriptor; or, in the same shape, a limit that a call brought along. */
export interface Rule {
  readonly domain: string;
  /** `domain.key_value.key`: its name in metrics and dumps, unique in a configuration. */
  readonly path: string;
  /** Composite keys from the top level to the rule's own. */
  readonly segments: readonly string[];
  /** Absent for an unlimited rule. */
  readonly limit?: CurrentLimit;
  /** 0 for an unlimited rule. */
  readonly windowSeconds: number;
  /** `, 10;w=60;name="…"`: this limit's part of an `x-ratelimit-limit` header; empty for an unlimited rule. */
  readonly headerPolicy: string;
  readonly name: string;
  /** Names of limits that step back when this one matches in the same call. */
  readonly replaces: readonly string[];
  readonly shadowMode: boolean;
  readonly quotaMode: boolean;
  readonly detailedMetric: boolean;
  readonly metadata?: JsonObject;
  /** The nodes from the top level to the rule's own, one per entry of a descriptor that matches; none for an override. */
  readonly levels: readonly DescriptorNode[];
  /** Some level has `share_threshold`. */
  readonly sharesThreshold: boolean;
  /** The series is named after values that came, in part or whole. */
  readonly hasRuntimeMetric: boolean;
  /** Where the `rate_limit` stands; absent when it came by xDS. */
  readonly location?: SourceLocation;
}

/** All domains by name. */
export interface RateLimitConfig {
  readonly domains: ReadonlyMap<string, DescriptorLevel>;
  /** Which of two sources has had no configuration yet: `the xDS server`. A call for an unknown domain fails until then. */
  readonly missing?: string;
}

/** Every rule of a configuration, in its order. */
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
 * A level of the configuration as operators see it. Configured values are shown, whatever their key is called, but for
 * credentials by their form: names of metrics stay the reference's.
 */
export function shownComposite(key: string, value: string): string {
  return value === "" ? key : `${key}_${isSecretValue(value) ? shownValue(value, true).text : value}`;
}
