/**
 * The limits that a service has reported, for the time when it is away: per descriptor values the last one, enforced by
 * this replica's own counters.
 */
import type { GlobalDescriptor, GlobalLimit } from "../../../ir/global-limit.ts";
import type { LimitUnit, LocalLimit } from "../../../ir/limit.ts";
import { BoundedCache } from "./bounded-cache.ts";
import { keyOf, type RequestDescriptor } from "./descriptors.ts";
import type { RateLimitAnswer } from "./messages.ts";

const maxLearned = 10_000;
/** What nobody has asked for in a day is forgotten. */
const keptMs = 86_400_000;
/** Longer windows than a week count as one: no outage lasts longer, and the counters' memory keeps no longer ones. */
const longestWindowSeconds = 604_800;
/** What is kept of a value, for operators to read. */
const maxValueBytes = 64;

/** What is known of the limit of one descriptor's values. */
export interface Learned {
  /** Whose request it was that the service told of it first. */
  readonly global: GlobalLimit;
  readonly descriptor: GlobalDescriptor;
  /** The value of each entry, no more than its beginning. */
  readonly values: readonly string[];
  readonly requestsPerUnit: number;
  readonly windowSeconds: number;
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

  /** Keeps what an answer says of the limits of a request's descriptors; its statuses may be fewer. */
  learn(
    global: GlobalLimit,
    descriptors: readonly RequestDescriptor[],
    { overallCode, statuses }: RateLimitAnswer,
    nowMs: number,
  ): void {
    for (let at = 0; at < descriptors.length; at++) {
      const descriptor = descriptors[at];
      const status = statuses[at];
      if (descriptor === undefined || status?.limit?.windowSeconds === undefined) continue;
      const { requestsPerUnit, windowSeconds } = status.limit;
      const key = keyOf(global.domain, descriptor);
      if (status.code === "OVER_LIMIT" && overallCode === "OK") {
        // One that is over and refuses nothing, in the service's shadow mode, must not begin to without the service.
        this.#limits.delete(key);
        continue;
      }
      const known = this.#limits.get(key, nowMs);
      if (known?.requestsPerUnit === requestsPerUnit && known.windowSeconds === windowSeconds) continue;
      const values = descriptor.entries.map(({ value }) => beginningOf(value));
      const learned = { global, descriptor: descriptor.compiled.descriptor, values, requestsPerUnit, windowSeconds };
      this.#limits.set(key, learned, nowMs + keptMs);
    }
  }

  /** What is known for the descriptors of a request. */
  limitsOf(global: GlobalLimit, descriptors: readonly RequestDescriptor[], nowMs: number): readonly LocalLimit[] {
    return descriptors.flatMap((descriptor) => {
      const key = keyOf(global.domain, descriptor);
      const learned = this.#limits.get(key, nowMs);
      return learned === undefined ? [] : localLimit(global, descriptor, key, learned);
    });
  }
}

/** A copy: a part of a text would keep all of it alive. */
function beginningOf(value: string): string {
  return value.length <= maxValueBytes ? value : Buffer.from(value).toString("utf8", 0, maxValueBytes);
}

/** The counter is by what the service counts by, so that all policies that ask it about the same share it as they do there. */
function localLimit(
  { policy, target, mode, service, refundOn }: GlobalLimit,
  { compiled: { descriptor }, hits }: RequestDescriptor,
  key: string,
  { requestsPerUnit, windowSeconds }: Learned,
): LocalLimit {
  return {
    counter: `learned ${service} ${descriptor.counts} ${key}`,
    policy,
    entry: descriptor.index,
    target,
    counts: descriptor.counts,
    amount: requestsPerUnit,
    burst: 0,
    ...windowOf(Math.min(windowSeconds, longestWindowSeconds)),
    ...(descriptor.counts === "requests" && { units: hits }),
    mode,
    ...(refundOn === undefined ? {} : { refundOn }),
  };
}

/** Whole seconds in the largest unit that divides them. */
function windowOf(seconds: number): { readonly unit: LimitUnit; readonly unitCount: number } {
  if (seconds % 3_600 === 0) return { unit: "Hours", unitCount: seconds / 3_600 };
  if (seconds % 60 === 0) return { unit: "Minutes", unitCount: seconds / 60 };
  return { unit: "Seconds", unitCount: seconds };
}
