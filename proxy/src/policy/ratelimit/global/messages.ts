/** What is asked of a rate limit service and what it answers, as far as we use it (envoy.service.ratelimit.v3). */
import type { LimitOverride } from "../../../ir/global-limit.ts";

/** RateLimitRequest. */
export interface RateLimitCall {
  readonly domain: string;
  /** At least one. */
  readonly descriptors: readonly CallDescriptor[];
  /** `hits_addend` of the call; undefined leaves it out, which services read as 1. */
  readonly hits?: number | undefined;
}

export interface CallDescriptor {
  /** Keys are never empty; values may be. */
  readonly entries: readonly DescriptorEntry[];
  readonly limitOverride?: LimitOverride | undefined;
  /** `hits_addend` of the descriptor, 0 to look only; undefined leaves it out. */
  readonly hits?: number | undefined;
}

export interface DescriptorEntry {
  readonly key: string;
  readonly value: string;
}

/** RateLimitResponse. */
export interface RateLimitAnswer {
  readonly overallCode: Code;
  /** Empty, or shorter than the descriptors, where a service says less. */
  readonly statuses: readonly DescriptorStatus[];
  /** For the client; names in lower case, as they came in order. */
  readonly responseHeaders: readonly HeaderValue[];
  /** For the backend. */
  readonly requestHeaders: readonly HeaderValue[];
  /** Body of a refusal; undefined where the service has none. */
  readonly rawBody: Buffer | undefined;
}

/** A number that is not known reads as `UNKNOWN`. */
export type Code = "UNKNOWN" | "OK" | "OVER_LIMIT";

export interface DescriptorStatus {
  readonly code: Code;
  /** Undefined where no limit matched, or the limit is unlimited. */
  readonly limit: ReportedLimit | undefined;
  readonly remaining: number;
  /** At least 0; undefined where the service does not say, or says nonsense. */
  readonly resetMs: number | undefined;
}

export interface ReportedLimit {
  readonly requestsPerUnit: number;
  /** Length of the window; undefined for a unit that we do not know. */
  readonly windowSeconds: number | undefined;
  readonly name: string;
}

export interface HeaderValue {
  readonly name: string;
  readonly value: string;
}
