/** A limit that a rate limit service counts for all replicas (ProxyPolicy `spec.traffic.rateLimit.global`). */
import type { LocalLimit, RefundCause } from "./limit.ts";
import type { UsageChunk } from "./usage.ts";

export interface GlobalLimit {
  /** Policy and target: `default/chat HTTPRoute/default/chat`. What is learned or remembered for it survives edits. */
  readonly id: string;
  /** `namespace/name` of the ProxyPolicy. */
  readonly policy: string;
  /** As `LocalLimit.target`. */
  readonly target: string;
  /** `Shadow` asks, counts and logs, and never refuses. */
  readonly mode: "Enforce" | "Shadow";
  /** Key of the service's backend, as snapshots have them; it is spoken to in gRPC. One that is not there is away. */
  readonly service: string;
  /** The rules of the service that apply. */
  readonly domain: string;
  /** For one call, from 1; a request waits no longer for the service. */
  readonly timeoutMs: number;
  /** What decides while the service does not answer: in-process counters, nothing, or a refusal of everything. */
  readonly failureMode: "Local" | "Open" | "Closed";
  /** `Always`: we say `x-envoy-ratelimited` on a refusal if the service does not. */
  readonly envoyRatelimitedHeader: "FromService" | "Always";
  readonly hitsMode: HitsMode;
  /** As `LocalLimit.refundOn`, for the counters that stand in for the service; a service keeps what it has counted. */
  readonly refundOn?: readonly RefundCause[];
  /** Of its policy: what clients see of the usage event of streams; absent: another policy or the Backend says. */
  readonly usageChunk?: UsageChunk;
  /** At least one. */
  readonly descriptors: readonly GlobalDescriptor[];
  /** Under `failureMode: Local`; empty: the limits last seen in answers of the service. */
  readonly fallback: readonly LocalLimit[];
}

/**
 * How the service is told how much to count. `Descriptor`: each descriptor by itself, 0 to look only. `Request`: one
 * figure for all of a call, for services that read no other; to look costs one hit. `Kuadrant`: Limitador's own methods.
 */
export type HitsMode = "Descriptor" | "Request" | "Kuadrant";

export interface GlobalDescriptor {
  /** Its place in the policy's list, from 0. */
  readonly index: number;
  readonly counts: "requests" | "tokens";
  /** At least one, in the order that the service matches them. */
  readonly entries: readonly DescriptorExpression[];
  /** CEL source of the units to count. Absent: 1 for a request, all tokens of a response. */
  readonly cost?: string;
  readonly limitOverride?: LimitOverride;
}

export interface DescriptorExpression {
  readonly key: string;
  /** CEL source of the value. */
  readonly expression: string;
  /** The descriptor is not for requests without the header, parameter or claim that the expression reads. */
  readonly skipsAbsent?: true;
}

/** Replaces the limit that the service has for the descriptor. */
export interface LimitOverride {
  readonly requestsPerUnit: number;
  readonly unit: OverrideUnit;
}

/** envoy.type.v3.RateLimitUnit; it has no week. */
export type OverrideUnit = "Second" | "Minute" | "Hour" | "Day" | "Month" | "Year";

/** What decided about a request under a global limit. */
export type GlobalDecider =
  /** The service's answer to this request. */
  | "service"
  /** An earlier answer: the limit is exhausted until its reset. */
  | "cache"
  /** The policy's `fallback` counters. */
  | "fallback"
  /** In-process counters with the limits that the service last reported. */
  | "learned"
  /** Nobody: the service failed and nothing stood in for it, or `failureMode` said so. */
  | "failureMode"
  /** No descriptor applies to the request. */
  | "none";

/** How one global limit saw a request. */
export interface GlobalDecision {
  readonly limit: GlobalLimit;
  readonly outcome: "allowed" | "denied" | "shadowDenied";
  readonly by: GlobalDecider;
}
