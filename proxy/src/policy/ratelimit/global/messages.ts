/**
 * The requests and responses of the rate limit protocol (envoy.service.ratelimit.v3), as far as the gateway uses them.
 */
import type { LimitOverride } from "../../../ir/global-limit.ts";

/** RateLimitRequest. */
export interface RateLimitRequest {
  readonly domain: string;
  /** At least one. */
  readonly descriptors: readonly CallDescriptor[];
  /** `hits_addend` of the call; undefined leaves it out, which services read as 1. */
  readonly hits?: number | undefined;
  /**
   * The call counts at all descriptors, or at none if it is denied, and at most the limit of each. Only the service of
   * this project reads it, and `heldAtMs` (`protos/src/reservation.ts`).
   */
  readonly reserves?: boolean | undefined;
  /** `heldAtMs` of an earlier response, whose hits are refunded. */
  readonly heldAtMs?: number | undefined;
}

/** `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor`. */
export interface CallDescriptor {
  /** Keys are never empty; values may be. */
  readonly entries: readonly DescriptorEntry[];
  readonly limitOverride?: LimitOverride | undefined;
  /** `hits_addend` of the descriptor, 0 to look only; undefined leaves it out. */
  readonly hits?: number | undefined;
  /** `is_negative_hits`: `hits` are refunded. */
  readonly isRefund?: boolean | undefined;
}

/** `RateLimitDescriptor.Entry`: one key and value of a descriptor. */
export interface DescriptorEntry {
  readonly key: string;
  readonly value: string;
}

/** RateLimitResponse. */
export interface RateLimitResponse {
  readonly overallCode: Code;
  /**
   * In the order of the descriptors. A service may report fewer, or more, of which the last belong to no descriptor.
   */
  readonly statuses: readonly DescriptorStatus[];
  /** Fields for the client, in the order of the response; names in lower case. */
  readonly responseHeaders: readonly HeaderValue[];
  /** Fields for the backend. */
  readonly requestHeaders: readonly HeaderValue[];
  /** Body of a denial; undefined if the service sends none. */
  readonly rawBody: Buffer | undefined;
  /**
   * The time of the call in ms since the epoch, for refunds; undefined unless the call reserves and the service
   * refunds.
   */
  readonly heldAtMs?: number | undefined;
}

/** An unknown number is read as `UNKNOWN`. */
export type Code = "UNKNOWN" | "OK" | "OVER_LIMIT";

/** `RateLimitResponse.DescriptorStatus`: the decision for one descriptor of the request. */
export interface DescriptorStatus {
  readonly code: Code;
  /** Undefined if no limit matched, or the limit is unlimited. */
  readonly limit: ReportedLimit | undefined;
  /** `limit_remaining`: the hits that are left in the current window. */
  readonly remaining: number;
  /** At least 0; undefined if absent or invalid. */
  readonly resetMs: number | undefined;
  /** The hits that are counted, beside `heldAtMs`; undefined without any. */
  readonly heldHits?: number | undefined;
}

/** `RateLimitResponse.RateLimit`: the limit that a service applied. */
export interface ReportedLimit {
  readonly requestsPerUnit: number;
  /** Length of the window; undefined for an unknown unit. */
  readonly windowSeconds: number | undefined;
  readonly name: string;
}

/** `envoy.config.core.v3.HeaderValue`: a field for the client or the backend. */
export interface HeaderValue {
  readonly name: string;
  readonly value: string;
}
