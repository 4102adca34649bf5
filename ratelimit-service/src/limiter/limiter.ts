/**
 * Decides calls: plans the descriptors, lets the store count, compares, and composes the answer. The rules of counting are
 * the reference's: windows are aligned to the epoch; hits are counted first and compared after, so a refused call counts
 * too; over means above the limit; every descriptor is counted even if another is over.
 */
import type { RateLimitConfig } from "../config/rule.ts";
import { type CountOptions, countDescriptors, settleDescriptor } from "./count.ts";
import { dynamicMetadata } from "./dynamic-metadata.ts";
import { type HeaderStyle, responseHeaders } from "./headers.ts";
import { type CountedDescriptor, type PlannedDescriptor, type PlanOptions, planDescriptors } from "./plan.ts";
import type { JsonObject, RateLimitRequest, RateLimitResponse } from "./rate-limit.ts";

export interface LimiterOptions extends CountOptions, PlanOptions {
  /** No call is refused; statuses tell who would have been (SHADOW_MODE). */
  readonly shadowMode: boolean;
  readonly headers: HeaderStyle;
  /** Answers carry dynamic metadata (RESPONSE_DYNAMIC_METADATA). */
  readonly dynamicMetadata: boolean;
}

export class Limiter {
  readonly #options: LimiterOptions;

  constructor(options: LimiterOptions) {
    this.#options = options;
  }

  /**
   * Decides a call at a given time; synchronously when the store answers so. Rejects with `StoreError`.
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
    if (counting === undefined) return this.#answer(request, planned, counted, nowSeconds);
    return counting.then(() => this.#answer(request, planned, counted, nowSeconds));
  }

  #answer(
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
    return { ...response, dynamicMetadata: dynamicMetadata(request, metadataOfPassed(counted)) };
  }

  /** Some limit refuses; quotas refuse only all together, and with QUOTA_MODE what has no limit is a quota that passes. */
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

function metadataOfPassed(counted: readonly CountedDescriptor[]): readonly JsonObject[] {
  const passed: JsonObject[] = [];
  for (const { status, rule } of counted) {
    if (status.code === "OK" && rule.metadata !== undefined) passed.push(rule.metadata);
  }
  return passed;
}
