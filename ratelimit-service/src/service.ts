/**
 * The door of the core: one call in, one answer out, for every transport. What goes wrong on the way is one error class
 * with a closed set of codes, whose texts a client of envoyproxy/ratelimit already knows.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { LiveConfig } from "./config/live-config.ts";
import type { Limiter } from "./limiter/limiter.ts";
import { InvalidDescriptorError } from "./limiter/plan.ts";
import type { RateLimitRequest, RateLimitResponse } from "./limiter/rate-limit.ts";
import type { RateLimitStats } from "./stats.ts";
import { StoreError } from "./store/counter-store.ts";

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

export interface RateLimitServiceOptions {
  readonly limiter: Limiter;
  readonly config: LiveConfig;
  readonly stats: RateLimitStats;
  readonly clock: Clock;
  /** While the store is away every call passes (FAILURE_MODE=open) instead of failing. */
  readonly failsOpen: boolean;
}

export function createRateLimitService(options: RateLimitServiceOptions): RateLimitService {
  const { limiter, config, stats, clock, failsOpen } = options;

  /** An answer in place of a fault, or the fault as clients know it. */
  function settleFault(fault: unknown, request: RateLimitRequest): RateLimitResponse {
    if (!(fault instanceof StoreError)) {
      stats.service.serviceError++;
      if (fault instanceof InvalidDescriptorError) throw new RateLimitError("InvalidArgument", fault.message);
      throw fault;
    }
    stats.service.storeError++;
    if (!failsOpen) throw new RateLimitError("StoreUnavailable", fault.message, { cause: fault });
    stats.service.degraded++;
    return withoutLimits(request);
  }

  return {
    shouldRateLimit(request) {
      try {
        if (request.domain === "") throw new RateLimitError("EmptyDomain", "rate limit domain must not be empty");
        if (request.descriptors.length === 0) {
          throw new RateLimitError("NoDescriptors", "rate limit descriptor list must not be empty");
        }
        const current = config.current;
        if (current === undefined) throw new RateLimitError("NoConfig", "no rate limit configuration loaded");
        if (current.missing !== undefined && !current.domains.has(request.domain)) {
          throw new RateLimitError("NoConfig", `no rate limit configuration loaded from ${current.missing}`);
        }
        const answer = limiter.decide(current, request, Math.floor(clock.nowMs() / 1_000));
        return answer instanceof Promise ? answer.catch((fault: unknown) => settleFault(fault, request)) : answer;
      } catch (fault) {
        return settleFault(fault, request);
      }
    },
  };
}

/** What a call gets that nothing limits. */
function withoutLimits({ descriptors }: RateLimitRequest): RateLimitResponse {
  return {
    overallCode: "OK",
    statuses: descriptors.map(() => ({ code: "OK", limitRemaining: 0 })),
    responseHeaders: [],
  };
}
