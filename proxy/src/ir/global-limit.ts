/** A limit that a rate limit service counts for all replicas (ProxyPolicy `spec.traffic.rateLimit.global`). */
import type { LocalLimit, RefundCause } from "./limit.ts";
import type { LimitResponses } from "./limit-response.ts";
import type { UsageChunk } from "./usage.ts";

/** A global limit as it applies to one rule. */
export interface GlobalLimit extends LimitResponses {
  /**
   * Policy and target: `default/chat HTTPRoute/default/chat`. State that is keyed by it survives edits of the policy.
   */
  readonly id: string;
  /** `namespace/name` of the ProxyPolicy. */
  readonly policy: string;
  /** As `LocalLimit.target`. */
  readonly target: string;
  /** `Shadow` calls the service, counts and logs, but denies nothing. */
  readonly mode: "Enforce" | "Shadow";
  /** Key of the service's backend in the snapshot; it is called by gRPC. A missing backend counts as unavailable. */
  readonly service: string;
  /** The domain of the descriptors. */
  readonly domain: string;
  /** Timeout of one call, at least 1 ms; a request waits no longer for the service. */
  readonly timeoutMs: number;
  /** What decides while the service is unavailable: in-process counters, nothing, or a denial of every request. */
  readonly failureMode: "Local" | "Open" | "Closed";
  /** `Always`: the gateway adds `x-envoy-ratelimited` to a denied request's response if the service does not. */
  readonly envoyRatelimitedHeader: "FromService" | "Always";
  readonly hitsMode: HitsMode;
  /** As `LocalLimit.refundOn`, for the fallback counters; the service itself refunds nothing. */
  readonly refundOn?: readonly RefundCause[];
  /** `usageChunk` of its policy; absent: another policy or the Backend decides. */
  readonly usageChunk?: UsageChunk;
  /** At least one. */
  readonly descriptors: readonly GlobalDescriptor[];
  /** For `failureMode: Local`; empty: the limits that the service last reported. */
  readonly fallback: readonly LocalLimit[];
}

/**
 * Where the service reads the hits. `Descriptor`: in each descriptor, 0 to look only. `Request`: one figure for all
 * descriptors of a call, for services that read no other; to look costs one hit. `Kuadrant`: in Limitador's own
 * methods.
 */
export type HitsMode = "Descriptor" | "Request" | "Kuadrant";

/** A descriptor of a global limit. */
export interface GlobalDescriptor {
  /** Its index in the policy's list, from 0. */
  readonly index: number;
  readonly counts: "requests" | "tokens";
  /** At least one, in the order in which the service matches them. */
  readonly entries: readonly DescriptorExpression[];
  /**
   * CEL source of a condition; the descriptor applies to a request unless its value is false. Absent: to every request.
   */
  readonly when?: string;
  /** CEL source of the units to count. Absent: 1 for a request, all tokens of a response. */
  readonly cost?: string;
  readonly limitOverride?: OverrideRule;
  /** As `LocalLimit.reserves`; only for `tokens`. */
  readonly reserves?: true;
}

/** An entry of a descriptor. */
export interface DescriptorExpression {
  readonly key: string;
  /** CEL source of the value. */
  readonly expression: string;
  /** Skips the descriptor for requests without the header, parameter or claim that the expression reads. */
  readonly skipsAbsent?: true;
}

/** How the limit of a request is found that replaces the one in the configuration of the service. */
export interface OverrideRule {
  /** From 0 to 2^32 - 1. Beside an expression for where it has no value; absent: no override then. */
  readonly requestsPerUnit?: number;
  /** CEL source of the amount. Absent: `requestsPerUnit` for every request. */
  readonly requestsPerUnitFrom?: string;
  readonly unit: OverrideUnit;
}

/** Replaces the limit in the configuration of the service, for one request. */
export interface LimitOverride {
  /** From 0 to 2^32 - 1. */
  readonly requestsPerUnit: number;
  readonly unit: OverrideUnit;
}

/** envoy.type.v3.RateLimitUnit; it has no week. */
export type OverrideUnit = "Second" | "Minute" | "Hour" | "Day" | "Month" | "Year";

/** What decided on a request under a global limit. */
export type GlobalDecider =
  /** The response of the service to this request. */
  | "service"
  /** An earlier response: the limit is exhausted until its reset. */
  | "cache"
  /** The policy's `fallback` counters. */
  | "fallback"
  /** In-process counters with the limits that the service last reported. */
  | "learned"
  /** The `failureMode`: the service was unavailable, and no fallback counter applied. */
  | "failureMode"
  /** No descriptor applies to the request. */
  | "none";

/** The decision of one global limit on a request. */
export interface GlobalDecision {
  readonly limit: GlobalLimit;
  readonly outcome: "allowed" | "denied" | "shadowDenied";
  readonly by: GlobalDecider;
  /** The descriptors that do not apply to the request. */
  readonly notApplied: readonly DescriptorNotApplied[];
}

/** A descriptor that does not apply to a request. */
export interface DescriptorNotApplied {
  readonly descriptor: GlobalDescriptor;
  /** Its condition is false, or the request lacks the value of an entry with `ifAbsent: Skip`. */
  readonly because: "when" | "ifAbsent";
}
