/**
 * The transport-independent entry of the service: one request in, one response out. All errors are of one class with a
 * closed set of codes; their messages are those of envoyproxy/ratelimit.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { LiveConfig } from "./config/live-config.ts";
import type { Limiter } from "./limiter/limiter.ts";
import { InvalidDescriptorError } from "./limiter/plan.ts";
import type { RateLimitRequest, RateLimitResponse } from "./model/rate-limit.ts";
import type { RateLimitStats } from "./stats.ts";
import { StoreError } from "./model/counter-store.ts";

/** The method of the rate limit protocol. */
export interface RateLimitService {
  /**
   * Decides and counts a call. Returns synchronously when the store is in memory (the gRPC server then writes in the
   * same tick), and a promise when it is remote. Throws or rejects with `RateLimitError` only.
   */
  shouldRateLimit(request: RateLimitRequest): RateLimitResponse | Promise<RateLimitResponse>;
}

/**
 * - `EmptyDomain`, `NoDescriptors`, `NoConfig`, `StoreUnavailable`: as envoyproxy/ratelimit, gRPC UNKNOWN and HTTP 400.
 * - `InvalidArgument`: an invalid descriptor or override, gRPC INVALID_ARGUMENT and HTTP 400.
 */
export type RateLimitErrorCode = "EmptyDomain" | "NoDescriptors" | "NoConfig" | "StoreUnavailable" | "InvalidArgument";

/** The reason why a call was not decided. The message is for the client and contains no secret. */
export class RateLimitError extends Error {
  readonly code: RateLimitErrorCode;

  constructor(code: RateLimitErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "RateLimitError";
    this.code = code;
  }
}

/** The parts of a service. */
export interface RateLimitServiceOptions {
  /** Decides valid calls. */
  readonly limiter: Limiter;
  /** The configuration; calls fail with `NoConfig` until it has one. */
  readonly config: LiveConfig;
  /** Counts errors. */
  readonly stats: RateLimitStats;
  /** Its wall time selects the windows. */
  readonly clock: Clock;
  /** Whether calls are allowed while the store is unavailable (FAILURE_MODE=open) instead of failing. */
  readonly failsOpen: boolean;
}

/** Returns a service that validates calls, and gives each error its code. */
export function createRateLimitService(options: RateLimitServiceOptions): RateLimitService {
  const { limiter, config, stats, clock, failsOpen } = options;

  /**
   * Returns a response that allows the call if the error is the store's and the settings fail open. Otherwise throws
   * the error for the client.
   */
  function recoverOrThrow(error: unknown, request: RateLimitRequest): RateLimitResponse {
    if (!(error instanceof StoreError)) {
      stats.service.serviceError++;
      if (error instanceof InvalidDescriptorError) throw new RateLimitError("InvalidArgument", error.message);
      throw error;
    }
    stats.service.storeError++;
    if (!failsOpen) throw new RateLimitError("StoreUnavailable", error.message, { cause: error });
    stats.service.degraded++;
    return allowAll(request, clock.nowMs());
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
        const response = limiter.decide(current, request, clock.nowMs());
        return response instanceof Promise
          ? response.catch((error: unknown) => recoverOrThrow(error, request))
          : response;
      } catch (error) {
        return recoverOrThrow(error, request);
      }
    },
  };
}

/** Wraps the service so that `run` is called once, before the first call. */
export function onFirstCall(service: RateLimitService, run: () => void): RateLimitService {
  let isFirst = true;
  return {
    shouldRateLimit(request) {
      if (isFirst) {
        isFirst = false;
        run();
      }
      return service.shouldRateLimit(request);
    },
  };
}

/** Returns the response to a call that no limit applies to. A reservation holds nothing. */
function allowAll({ descriptors, reserves }: RateLimitRequest, nowMs: number): RateLimitResponse {
  return {
    ...(reserves === true && { heldAtMs: nowMs }),
    overallCode: "OK",
    statuses: descriptors.map(() => ({ code: "OK", limitRemaining: 0 })),
    responseHeaders: [],
  };
}
