/**
 * The limits that a service has reported, for the time when it is away: per descriptor values the last one, enforced by
 * this replica's own counters.
 */
import type { GlobalLimit } from "../../../ir/global-limit.ts";
import type { LimitUnit, LocalLimit } from "../../../ir/limit.ts";
import { BoundedCache } from "./bounded-cache.ts";
import { keyOf, type RequestDescriptor } from "./descriptors.ts";
import type { DescriptorStatus } from "./messages.ts";

const maxLearned = 10_000;
/** What nobody has asked for in a day is forgotten. */
const keptMs = 86_400_000;
/** Longer windows than a week count as one: no outage lasts longer, and the counters' memory keeps no longer ones. */
const longestWindowSeconds = 604_800;

/** What is known of the limit of one descriptor. */
export interface Learned {
  readonly global: GlobalLimit;
  readonly descriptor: RequestDescriptor;
  readonly requestsPerUnit: number;
  readonly windowSeconds: number;
  readonly limit: LocalLimit;
}

export class LearnedLimits {
  readonly #limits = new BoundedCache<Learned>(maxLearned);

  /** Descriptor values of which a limit is known. */
  get size(): number {
    return this.#limits.size;
  }

  /** At most `max` of them, for operators. */
  list(nowMs: number, max: number): readonly Learned[] {
    return this.#limits.values(nowMs, max);
  }

  /** Keeps what an answer says of the limits of a request's descriptors; `statuses` may be fewer. */
  learn(
    limit: GlobalLimit,
    descriptors: readonly RequestDescriptor[],
    statuses: readonly DescriptorStatus[],
    nowMs: number,
  ): void {
    for (let at = 0; at < descriptors.length; at++) {
      const descriptor = descriptors[at];
      const reported = statuses[at]?.limit;
      if (descriptor === undefined || reported?.windowSeconds === undefined) continue;
      const { requestsPerUnit, windowSeconds } = reported;
      const key = keyOf(limit.id, descriptor);
      const known = this.#limits.get(key, nowMs);
      if (known?.requestsPerUnit === requestsPerUnit && known.windowSeconds === windowSeconds) continue;
      const local = localLimit(limit, descriptor, key, requestsPerUnit, windowSeconds);
      this.#limits.set(
        key,
        { global: limit, descriptor, requestsPerUnit, windowSeconds, limit: local },
        nowMs + keptMs,
      );
    }
  }

  /** What is known for the descriptors of a request; each counts this request as one, or by its tokens. */
  limitsOf(limit: GlobalLimit, descriptors: readonly RequestDescriptor[], nowMs: number): readonly LocalLimit[] {
    return descriptors.flatMap((descriptor) => {
      const learned = this.#limits.get(keyOf(limit.id, descriptor), nowMs);
      if (learned === undefined) return [];
      if (descriptor.hits <= 1) return [learned.limit];
      // Local counters count requests one by one: of dear ones fewer fit.
      return [{ ...learned.limit, amount: Math.max(1, Math.floor(learned.requestsPerUnit / descriptor.hits)) }];
    });
  }
}

function localLimit(
  { policy, target, mode }: GlobalLimit,
  { compiled: { descriptor } }: RequestDescriptor,
  key: string,
  requestsPerUnit: number,
  windowSeconds: number,
): LocalLimit {
  return {
    counter: `learned ${key}`,
    policy,
    entry: descriptor.index,
    target,
    counts: descriptor.counts,
    amount: requestsPerUnit,
    burst: 0,
    ...windowOf(Math.min(windowSeconds, longestWindowSeconds)),
    mode,
  };
}

/** Whole seconds in the largest unit that divides them. */
function windowOf(seconds: number): { readonly unit: LimitUnit; readonly unitCount: number } {
  if (seconds % 3_600 === 0) return { unit: "Hours", unitCount: seconds / 3_600 };
  if (seconds % 60 === 0) return { unit: "Minutes", unitCount: seconds / 60 };
  return { unit: "Seconds", unitCount: seconds };
}
