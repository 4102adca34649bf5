/**
 * Decides calls: plans the descriptors, counts them in the store, compares, and builds the response. Counting follows
 * envoyproxy/ratelimit: windows are aligned to the epoch; hits are counted first and compared after, so a denied call
 * counts too; "over" means above the limit; every descriptor is counted even if another is over.
 */
import type { RateLimitConfig } from "../config/rule.ts";
import { type CountOptions, countDescriptors, settleDescriptor } from "./count.ts";
import { dynamicMetadata } from "./dynamic-metadata.ts";
import { type HeaderStyle, responseHeaders } from "./headers.ts";
import { type CountedDescriptor, type PlannedDescriptor, type PlanOptions, planDescriptors } from "./plan.ts";
import type { JsonObject, RateLimitRequest, RateLimitResponse } from "../model/rate-limit.ts";

/** The store, and all settings that change a decision or a response. */
export interface LimiterOptions extends CountOptions, PlanOptions {
  /** Whether no call is denied, and statuses report which would have been (SHADOW_MODE). */
  readonly shadowMode: boolean;
  /** The headers of responses. */
  readonly headers: HeaderStyle;
  /** Whether responses carry dynamic metadata (RESPONSE_DYNAMIC_METADATA). */
  readonly dynamicMetadata: boolean;
}

/** Decides the calls of one thread. It keeps no state besides the options. */
export class Limiter {
  readonly #options: LimiterOptions;

  constructor(options: LimiterOptions) {
    this.#options = options;
  }

  /**
   * Decides a call at a given time. Returns synchronously when the store does; a promise rejects with `StoreError`.
   * @param nowSeconds whole seconds since the epoch
   * @throws InvalidDescriptorError before anything is counted
   */
  decide(
    config: RateLimitConfig,
    request: RateLimitRequest,
    nowSeconds: number,
  ): RateLimitResponse | Promise<RateLimitResponse> {
    const planned = planDescriptors(config, request, nowSeconds, this.#options);
    const counted = planned.filter((descriptor) => descriptor.kind === "counted");
    const counting = counted.length === 0 ? undefined : countDescriptors(counted, this.#options);
    if (counting === undefined) return this.#respond(request, planned, counted, nowSeconds);
    return counting.then(() => this.#respond(request, planned, counted, nowSeconds));
  }

  #respond(
    request: RateLimitRequest,
    planned: readonly PlannedDescriptor[],
    counted: readonly CountedDescriptor[],
    nowSeconds: number,
  ): RateLimitResponse {
    const { stats, headers } = this.#options;
    for (const descriptor of counted) settleDescriptor(descriptor, nowSeconds, this.#options);
    let isOver = this.#isOverLimit(planned);
    if (isOver && this.#options.shadowMode) {
      stats.service.globalShadowMode++;
      isOver = false;
    }
    const response: RateLimitResponse = {
      overallCode: isOver ? "OVER_LIMIT" : "OK",
      statuses: planned.map((descriptor) => descriptor.status),
      responseHeaders: responseHeaders(headers, counted, isOver),
    };
    if (!this.#options.dynamicMetadata) return response;
    return { ...response, dynamicMetadata: dynamicMetadata(request, metadataOfAllowed(counted)) };
  }

  /**
   * Whether the call is denied: some limit that is no quota is over, or all quotas are over. With QUOTA_MODE, a
   * descriptor without a limit is a quota that is never over.
   */
  #isOverLimit(planned: readonly PlannedDescriptor[]): boolean {
    let quotas = 0;
    let quotasOver = 0;
    for (const descriptor of planned) {
      const isOver = descriptor.status.code === "OVER_LIMIT";
      const isQuota =
        descriptor.kind === "counted" ? descriptor.isQuota : this.#options.quotaMode && !descriptor.isUnlimited;
      if (isOver && !isQuota) return true;
      if (isQuota) {
        quotas++;
        if (isOver) quotasOver++;
      }
    }
    return quotas > 0 && quotas === quotasOver;
  }
}

function metadataOfAllowed(counted: readonly CountedDescriptor[]): readonly JsonObject[] {
  const metadata: JsonObject[] = [];
  for (const { status, rule } of counted) {
    if (status.code === "OK" && rule.metadata !== undefined) metadata.push(rule.metadata);
  }
  return metadata;
}
