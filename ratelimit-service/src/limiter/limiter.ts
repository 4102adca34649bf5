/**
 * Decides calls: plans the descriptors, counts them in the store, compares, and builds the response. Counting follows
 * envoyproxy/ratelimit: windows are aligned to the epoch; hits are counted first and compared after, so a denied call
 * counts too; "over" means above the limit; every descriptor is counted even if another is over. Sliding windows and
 * several limits of one descriptor, which envoyproxy/ratelimit does not have, do not count a call that they deny
 * (`group.ts`).
 */
import type { RateLimitConfig } from "../config/rule.ts";
import { type CountOptions, countDescriptors, settleDescriptor, wouldBeOver } from "./count.ts";
import { dynamicMetadata } from "./dynamic-metadata.ts";
import { settleGroup } from "./group.ts";
import { type HeaderStyle, responseHeaders } from "./headers.ts";
import { type PlannedDescriptor, type PlanOptions, planDescriptors, type StoredDescriptor } from "./plan.ts";
import { heldStatus, undoCounts } from "./reservation.ts";
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
   * @param nowMs milliseconds since the epoch, on the wall clock
   * @throws InvalidDescriptorError before anything is counted
   */
  decide(
    config: RateLimitConfig,
    request: RateLimitRequest,
    nowMs: number,
  ): RateLimitResponse | Promise<RateLimitResponse> {
    const planned = planDescriptors(config, request, nowMs, this.#options);
    const counted = planned.filter((descriptor) => descriptor.kind !== "uncounted");
    const isDenied = request.reserves === true ? () => isAbandoned(request) || this.#denies(planned) : undefined;
    const counting =
      counted.length === 0 ? undefined : countDescriptors(counted, Math.floor(nowMs / 1_000), this.#options, isDenied);
    if (counting === undefined) return this.#settle(request, planned, counted, nowMs);
    return counting.then(() => this.#settle(request, planned, counted, nowMs));
  }

  /** Whether a reservation is denied by the counters that were read. */
  #denies(planned: readonly PlannedDescriptor[]): boolean {
    if (this.#options.shadowMode) return false;
    return this.#isOverLimit(planned, (descriptor) => {
      return descriptor.kind !== "uncounted" && !descriptor.rule.shadowMode && wouldBeOver(descriptor, this.#options);
    });
  }

  /** A reservation that is denied counts nothing, and neither does one whose client does not get the response. */
  #settle(
    request: RateLimitRequest,
    planned: readonly PlannedDescriptor[],
    counted: readonly StoredDescriptor[],
    nowMs: number,
  ): RateLimitResponse | Promise<RateLimitResponse> {
    const response = this.#respond(request, planned, counted, nowMs);
    if (request.reserves !== true) return response;
    if (response.overallCode === "OK" && !isAbandoned(request)) {
      return { ...response, heldAtMs: nowMs, statuses: planned.map(heldStatus) };
    }
    const denial = { ...response, heldAtMs: nowMs };
    const undoing = undoCounts(counted, this.#options);
    return undoing === undefined ? denial : undoing.then(() => denial);
  }

  #respond(
    request: RateLimitRequest,
    planned: readonly PlannedDescriptor[],
    counted: readonly StoredDescriptor[],
    nowMs: number,
  ): RateLimitResponse {
    const { stats, headers } = this.#options;
    for (const descriptor of counted) {
      if (descriptor.kind === "grouped") settleGroup(descriptor, nowMs, this.#options);
      else settleDescriptor(descriptor, Math.floor(nowMs / 1_000), this.#options);
    }
    let isOver = this.#isOverLimit(planned, ({ status }) => status.code === "OVER_LIMIT");
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
  #isOverLimit(
    planned: readonly PlannedDescriptor[],
    isDescriptorOver: (descriptor: PlannedDescriptor) => boolean,
  ): boolean {
    let quotas = 0;
    let quotasOver = 0;
    for (const descriptor of planned) {
      const isOver = isDescriptorOver(descriptor);
      const isQuota =
        descriptor.kind === "uncounted" ? this.#options.quotaMode && !descriptor.isUnlimited : descriptor.isQuota;
      if (isOver && !isQuota) return true;
      if (isQuota) {
        quotas++;
        if (isOver) quotasOver++;
      }
    }
    return quotas > 0 && quotas === quotasOver;
  }
}

/** Whether the client does not get the response. */
function isAbandoned({ state }: RateLimitRequest): boolean {
  return state?.isDone === true;
}

function metadataOfAllowed(counted: readonly StoredDescriptor[]): readonly JsonObject[] {
  const metadata: JsonObject[] = [];
  for (const { status, rule } of counted) {
    if (status.code === "OK" && rule.metadata !== undefined) metadata.push(rule.metadata);
  }
  return metadata;
}
