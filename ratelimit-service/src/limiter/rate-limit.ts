/**
 * What a rate limit call asks and answers, free of any wire. Both doors (gRPC and JSON) turn their bytes into a
 * `RateLimitRequest` and a `RateLimitResponse` into bytes; names and meanings are those of
 * envoy.service.ratelimit.v3 and envoy.extensions.common.ratelimit.v3, enum values their names in proto3 JSON.
 */

/** `RateLimitResponse.Code`. The service itself never answers UNKNOWN; it exists on the wire. */
export type Code = "UNKNOWN" | "OK" | "OVER_LIMIT";

/** `RateLimitResponse.RateLimit.Unit` without UNKNOWN: a limit always has a window. */
export type Unit = "SECOND" | "MINUTE" | "HOUR" | "DAY" | "WEEK" | "MONTH" | "YEAR";

export interface DescriptorEntry {
  /** Not empty. */
  readonly key: string;
  /** May be empty. */
  readonly value: string;
}

/** A limit that the caller brings along (`RateLimitDescriptor.limit`); the door passes on what came, unchecked. */
export interface LimitOverride {
  readonly requestsPerUnit: number;
  /** The enum's name; a number that the enum does not have arrives as its decimal text. */
  readonly unit: string;
  /** Absent: 1. */
  readonly unitMultiplier?: number;
}

export interface Descriptor {
  readonly entries: readonly DescriptorEntry[];
  readonly limit?: LimitOverride;
  /**
   * Units that this descriptor costs; absent is the request's `hitsAddend`, 0 asks without counting. A uint64 on the
   * wire: the door passes its value as the nearest number, and what exceeds `maxCount` of a counter costs that much.
   */
  readonly hitsAddend?: number;
  /** Gives `hitsAddend` back instead of taking it. */
  readonly isNegativeHits?: boolean;
}

export interface RateLimitRequest {
  readonly domain: string;
  readonly descriptors: readonly Descriptor[];
  /** For every descriptor without its own; 0 counts as 1 (proto3 cannot tell it from absent). */
  readonly hitsAddend: number;
}

/** `DescriptorStatus.current_limit`. One rule always answers with one and the same object, so a door may cache bytes. */
export interface CurrentLimit {
  readonly requestsPerUnit: number;
  readonly unit: Unit;
  readonly name?: string;
  /** Only where it is not 1. */
  readonly unitMultiplier?: number;
}

export interface DescriptorStatus {
  readonly code: Code;
  /** Absent where no limit applies, and for an unlimited rule. */
  readonly currentLimit?: CurrentLimit;
  /** 0 to 4294967295; the latter says unlimited. */
  readonly limitRemaining: number;
  /** Whole seconds until the window ends, at least 1; absent where no counter is kept. */
  readonly durationUntilResetSeconds?: number;
}

/** A response header; names keep the case of the setting they come from. */
export interface HeaderValue {
  readonly key: string;
  readonly value: string;
}

/** A value of `google.protobuf.Struct`. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: JsonValue;
}

export interface RateLimitResponse {
  readonly overallCode: Code;
  /** One per descriptor of the request, in its order. */
  readonly statuses: readonly DescriptorStatus[];
  readonly responseHeaders: readonly HeaderValue[];
  /** Body of the 429 that the proxy sends; absent leaves it to the proxy. */
  readonly rawBody?: Uint8Array;
  readonly dynamicMetadata?: JsonObject;
}

/** `limit_remaining` of a rule without a limit: the largest uint32. */
export const unlimitedRemaining = 4_294_967_295;
