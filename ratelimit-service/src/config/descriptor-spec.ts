/**
 * The content of a configuration before validation, in the same shape for YAML and xDS. `descriptor-tree.ts` validates
 * it and builds the tree that the limiter reads.
 */
import type { SourceLocation } from "@gatewayproxy/runtime/problem";
import type { JsonObject } from "../model/rate-limit.ts";

/** One file, or one xDS resource: the descriptors of one domain. */
export interface DomainSpec {
  /** The file's key or the resource's name; precedes the message of every problem. */
  readonly key: string;
  readonly domain: string;
  readonly descriptors: readonly DescriptorSpec[];
  readonly location?: SourceLocation;
}

/**
 * One descriptor of the configuration (`RateLimitDescriptor` of ratelimit.config.ratelimit.v3). The members are those
 * of the file, which docs/ratelimit-service.md describes.
 */
export interface DescriptorSpec {
  readonly key: string;
  /** Empty to match every value. */
  readonly value: string;
  readonly rateLimit?: RateLimitSpec;
  /** Several limits in place of one; an extension of this service. */
  readonly rateLimits?: RateLimitsSpec;
  readonly descriptors: readonly DescriptorSpec[];
  readonly shadowMode: boolean;
  readonly quotaMode: boolean;
  readonly detailedMetric: boolean;
  readonly valueToMetric: boolean;
  readonly shareThreshold: boolean;
  /** An extension of this service; absent: false. */
  readonly countDenied?: boolean;
  readonly metadata?: JsonObject;
  readonly location?: SourceLocation;
}

/** The limits of `rate_limits`. */
export interface RateLimitsSpec {
  readonly limits: readonly RateLimitSpec[];
  readonly location?: SourceLocation;
}

/** The limit of a descriptor (`RateLimitPolicy` of ratelimit.config.ratelimit.v3). */
export interface RateLimitSpec {
  /** As written; empty when absent. */
  readonly unit: string;
  /** 0 to 4294967295; 0 is always over. */
  readonly requestsPerUnit: number;
  /** Length of the window in units; the default is 1. */
  readonly unitMultiplier: number;
  /** Whether windows are those of the calendar; absent: false. */
  readonly calendar?: boolean;
  /** The time zone of the calendar, as written; absent or empty: UTC. */
  readonly timezone?: string;
  /** `fixed` or `sliding`, as written; absent or empty: fixed. */
  readonly window?: string;
  readonly unlimited: boolean;
  readonly name: string;
  readonly replaces: readonly ReplacesSpec[];
  readonly location?: SourceLocation;
  /** Location of the unit. */
  readonly unitLocation?: SourceLocation;
  /** Location of `calendar`, `timezone` or `window`, whichever is present, the last first. */
  readonly windowLocation?: SourceLocation;
}

/** The name of a limit that this one replaces (`RateLimitReplace`). */
export interface ReplacesSpec {
  readonly name: string;
  readonly location?: SourceLocation;
}
