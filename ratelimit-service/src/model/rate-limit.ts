/**
 * The request and response of a rate limit call, independent of the transport. gRPC and JSON convert their bytes to a
 * `RateLimitRequest`, and a `RateLimitResponse` to bytes. Names and meanings are those of envoy.service.ratelimit.v3
 * and envoy.extensions.common.ratelimit.v3; enum values have their names in proto3 JSON.
 */

/** `RateLimitResponse.Code`. The service itself never returns UNKNOWN; the protocol has it. */
export type Code = "UNKNOWN" | "OK" | "OVER_LIMIT";

/** `RateLimitResponse.RateLimit.Unit` without UNKNOWN: a limit always has a window. */
export type Unit = "SECOND" | "MINUTE" | "HOUR" | "DAY" | "WEEK" | "MONTH" | "YEAR";

/** `RateLimitDescriptor.Entry`. */
export interface DescriptorEntry {
  /** Not empty. */
  readonly key: string;
  /** May be empty. */
  readonly value: string;
}

/** The limit override of a call (`RateLimitDescriptor.limit`), as received and not yet validated. */
export interface LimitOverride {
  readonly requestsPerUnit: number;
  /** The enum's name; a number without a name arrives as decimal text. */
  readonly unit: string;
  /** The default is 1. */
  readonly unitMultiplier?: number;
}

/** `envoy.extensions.common.ratelimit.v3.RateLimitDescriptor`. */
export interface Descriptor {
  readonly entries: readonly DescriptorEntry[];
  readonly limit?: LimitOverride;
  /**
   * Hits of this descriptor; without it, the request's `hitsAddend`. 0 checks without counting. A uint64 in the
   * protocol: it is converted to the nearest number, and capped at a counter's `maxCount`.
   */
  readonly hitsAddend?: number;
  /** Whether `hitsAddend` is refunded instead of added. */
  readonly isNegativeHits?: boolean;
}

/** `envoy.service.ratelimit.v3.RateLimitRequest`. */
export interface RateLimitRequest {
  readonly domain: string;
  readonly descriptors: readonly Descriptor[];
  /** Hits of every descriptor without its own; 0 counts as 1 (proto3 cannot distinguish it from absent). */
  readonly hitsAddend: number;
  /**
   * Whether the call counts at all descriptors or, if it is denied, at none. A descriptor then counts at most its
   * limit, so that a call that is larger fits where nothing is counted. Not part of Envoy's protocol.
   */
  readonly reserves?: boolean;
  /** Only with `reserves`: whether the client does not get the response any more, so that it would refund nothing. */
  readonly state?: { readonly isDone: boolean };
  /** `heldAtMs` of an earlier response: refunds belong to the windows of that time. Absent: now. */
  readonly heldAtMs?: number;
}

/** `DescriptorStatus.current_limit`. A rule always returns the same object, so a transport may cache its bytes. */
export interface CurrentLimit {
  readonly requestsPerUnit: number;
  readonly unit: Unit;
  readonly name?: string;
  /** Present only if it is not 1. */
  readonly unitMultiplier?: number;
}

/** `RateLimitResponse.DescriptorStatus`. */
export interface DescriptorStatus {
  readonly code: Code;
  /** Absent where no limit applies, and for an unlimited rule. */
  readonly currentLimit?: CurrentLimit;
  /** 0 to 4294967295; the latter means unlimited. */
  readonly limitRemaining: number;
  /** Whole seconds until the window ends, at least 1; absent without a counter. */
  readonly durationUntilResetSeconds?: number;
  /** Only for a call that reserves: the hits that are counted; absent without a counter, and in a denial. */
  readonly heldHits?: number;
}

/** A response header. Names keep the case of the setting that they come from. */
export interface HeaderValue {
  readonly key: string;
  readonly value: string;
}

/** A value of `google.protobuf.Struct`. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

/** A JSON object, which becomes a `google.protobuf.Struct`. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/** `envoy.service.ratelimit.v3.RateLimitResponse`. */
export interface RateLimitResponse {
  readonly overallCode: Code;
  /** One status per descriptor of the request, in its order. */
  readonly statuses: readonly DescriptorStatus[];
  readonly responseHeaders: readonly HeaderValue[];
  /** Body of the 429 that the proxy sends; without it the proxy chooses. */
  readonly rawBody?: Uint8Array;
  readonly dynamicMetadata?: JsonObject;
  /** Only for a call that reserves: its time, in ms since the epoch. */
  readonly heldAtMs?: number;
}

/** `limit_remaining` of a rule without a limit: the largest uint32. */
export const unlimitedRemaining = 4_294_967_295;
