/**
 * The limits that a service has reported, for the time when it is unavailable: the latest limit per descriptor values,
 * enforced by this replica's counters.
 */
import type { GlobalDescriptor, GlobalLimit } from "../../../ir/global-limit.ts";
import type { LimitUnit, LocalLimit } from "../../../ir/limit.ts";
import { BoundedCache } from "./bounded-cache.ts";
import { keyOf, namespaceOf, overrideKeyOf, type RequestDescriptor } from "./descriptors.ts";
import type { RateLimitResponse } from "./messages.ts";

/**
 * What all services of a worker may have. A service reports limits for the values that clients choose. The namespaces
 * of the policies share it, so that the clients of one do not remove what another's service has reported.
 */
const bounds = { maxItems: 50_000, maxBytes: 16 * 1024 * 1024 } as const;
/** Bytes of an entry beside its texts, with its place in the cache. */
const entryBytes = 400;
/** A limit is forgotten a day after it was last learned. */
const expiryMs = 86_400_000;
/** Longer windows than a week count as a week: no outage lasts longer, and the counters do not support longer ones. */
const maxWindowSeconds = 604_800;
/** Bytes that are kept of a value, for operators. */
const maxValueBytes = 64;

/** The limit of one descriptor's values. */
export interface LearnedEntry {
  /** The limit whose request first caused the service to report it. */
  readonly global: GlobalLimit;
  readonly descriptor: GlobalDescriptor;
  /** The beginning of the value of each entry, at most 64 bytes. */
  readonly values: readonly string[];
  readonly requestsPerUnit: number;
  readonly windowSeconds: number;
}

/** What one worker has learned, for the others: a client may come to any of them. */
export interface LearnedReport extends Pick<LearnedEntry, "values"> {
  /** `GlobalLimit.id` and `service` of its `global`. */
  readonly limit: string;
  readonly service: string;
  /** `GlobalDescriptor.index` of its `descriptor`. */
  readonly descriptor: number;
  /** Of the values of the request. */
  readonly key: string;
  /** Undefined: the service has a limit that denies nothing, and what it has reported before is forgotten. */
  readonly learned: Pick<LearnedEntry, "requestsPerUnit" | "windowSeconds"> | undefined;
}

/**
 * The limits that the services have reported to this worker, and those that others have learned (`add`): at most 16
 * MiB, each for a day after its last report.
 */
export class LearnedLimits {
  readonly #limits = new BoundedCache<LearnedEntry>(bounds);
  readonly #onLearned: (report: LearnedReport) => void;

  /** @param onLearned called for each limit that this worker learns or forgets by a response. */
  constructor(onLearned: (report: LearnedReport) => void = () => undefined) {
    this.#onLearned = onLearned;
  }

  /** Stores what another worker has learned. @param global its limit in this worker. */
  add(global: GlobalLimit, { descriptor: index, key, values, learned }: LearnedReport, nowMs: number): void {
    const descriptor = global.descriptors.find((each) => each.index === index);
    if (learned === undefined) this.#limits.delete(key);
    else if (descriptor !== undefined) this.#set(key, { global, descriptor, values, ...learned }, nowMs);
  }

  /** Returns the limits, for operators. */
  list(nowMs: number): Iterable<LearnedEntry> {
    return this.#limits.values(nowMs);
  }

  /** Removes what a service has reported. @param service its key. */
  forget(service: string): void {
    this.#limits.deleteWhere(({ global }) => global.service === service);
  }

  /**
   * Stores the limits that a response reports for the descriptors of a request; there may be fewer statuses than
   * descriptors.
   */
  learn(
    global: GlobalLimit,
    descriptors: readonly RequestDescriptor[],
    { overallCode, statuses }: RateLimitResponse,
    nowMs: number,
  ): void {
    for (let at = 0; at < descriptors.length; at++) {
      const descriptor = descriptors[at];
      const status = statuses[at];
      if (descriptor === undefined || status?.limit?.windowSeconds === undefined) continue;
      const { requestsPerUnit, windowSeconds } = status.limit;
      const key = learnedKeyOf(global, descriptor);
      const report = (values: readonly string[], learned: LearnedReport["learned"]): void => {
        const { index } = descriptor.compiled.descriptor;
        this.#onLearned({ limit: global.id, service: global.service, descriptor: index, key, values, learned });
      };
      if (status.code === "OVER_LIMIT" && overallCode === "OK") {
        // A limit that is over and denies nothing is in the service's shadow mode. It must not begin to deny without
        // the service.
        if (this.#limits.get(key, nowMs) !== undefined) report([], undefined);
        this.#limits.delete(key);
        continue;
      }
      const known = this.#limits.get(key, nowMs);
      if (known?.requestsPerUnit === requestsPerUnit && known.windowSeconds === windowSeconds) continue;
      const values = descriptor.entries.map(({ value }) => truncate(value));
      this.#set(
        key,
        { global, descriptor: descriptor.compiled.descriptor, values, requestsPerUnit, windowSeconds },
        nowMs,
      );
      report(values, { requestsPerUnit, windowSeconds });
    }
  }

  #set(key: string, learned: LearnedEntry, nowMs: number): void {
    const bytes = learned.values.reduce((sum, value) => sum + value.length, entryBytes + key.length);
    this.#limits.set(key, learned, { owner: namespaceOf(learned.global), expiresMs: nowMs + expiryMs, bytes });
  }

  /** Returns the known limits for the descriptors of a request. */
  limitsOf(global: GlobalLimit, descriptors: readonly RequestDescriptor[], nowMs: number): readonly LocalLimit[] {
    return descriptors.flatMap((descriptor) => {
      const learned = this.#limits.get(learnedKeyOf(global, descriptor), nowMs);
      return learned === undefined ? [] : localLimit(global, descriptor, keyOf(global.domain, descriptor), learned);
    });
  }
}

/** Requests with the same values may have different overrides, and none may get the limit of another. */
function learnedKeyOf({ service, domain }: GlobalLimit, descriptor: RequestDescriptor): string {
  return `${service}\n${keyOf(domain, descriptor)}${overrideKeyOf(descriptor)}`;
}

/** Returns a copy: a part of a header, which an expression reads, would keep the whole header in memory. */
function truncate(value: string): string {
  return Buffer.from(value).toString("utf8", 0, maxValueBytes);
}

/**
 * The counter's identity is what the service counts by, so that all policies with the same descriptors, and requests
 * with different overrides, share it as they do in the service.
 */
function localLimit(
  { policy, target, mode, service, refundOn, headers, denied }: GlobalLimit,
  { compiled: { descriptor }, hits }: RequestDescriptor,
  key: string,
  { requestsPerUnit, windowSeconds }: LearnedEntry,
): LocalLimit {
  return {
    counter: `learned ${service} ${descriptor.counts} ${key}`,
    policy,
    entry: descriptor.index,
    target,
    counts: descriptor.counts,
    amount: requestsPerUnit,
    burst: 0,
    restoresAll: true,
    ...windowOf(Math.min(windowSeconds, maxWindowSeconds)),
    ...(descriptor.counts === "requests" && { units: hits }),
    ...(descriptor.reserves === true && { reserves: true as const }),
    mode,
    ...(refundOn === undefined ? {} : { refundOn }),
    ...(headers === undefined ? {} : { headers }),
    ...(denied === undefined ? {} : { denied }),
  };
}

/** Returns whole seconds in the largest unit that divides them. */
function windowOf(seconds: number): { readonly unit: LimitUnit; readonly unitCount: number } {
  if (seconds % 3_600 === 0) return { unit: "Hours", unitCount: seconds / 3_600 };
  if (seconds % 60 === 0) return { unit: "Minutes", unitCount: seconds / 60 };
  return { unit: "Seconds", unitCount: seconds };
}
