/**
 * The door of the core: one call in, one answer out, for every transport. What goes wrong on the way is one error class
 * with a closed set of codes, whose texts a client of envoyproxy/ratelimit already knows.
 */
import type { RateLimitRequest, RateLimitResponse } from "./limiter/rate-limit.ts";

export interface RateLimitService {
  /**
   * Decides and counts. Answers synchronously when the store is in memory (the fast door writes in the same tick), with
   * a promise when it is remote. Throws or rejects with `RateLimitError` only.
   */
  shouldRateLimit(request: RateLimitRequest): RateLimitResponse | Promise<RateLimitResponse>;
}

/**
 * - `EmptyDomain`, `NoDescriptors`, `NoConfig`, `StoreUnavailable`: as the reference, gRPC UNKNOWN and HTTP 400.
 * - `InvalidArgument`: a descriptor or override that makes no sense, gRPC INVALID_ARGUMENT and HTTP 400.
 */
export type RateLimitErrorCode = "EmptyDomain" | "NoDescriptors" | "NoConfig" | "StoreUnavailable" | "InvalidArgument";

/** Why a call could not be decided. The message is for the client and holds no secret. */
export class RateLimitError extends Error {
  readonly code: RateLimitErrorCode;

  constructor(code: RateLimitErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "RateLimitError";
    this.code = code;
  }
}
