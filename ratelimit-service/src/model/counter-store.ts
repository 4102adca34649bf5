/**
 * Stores of counters. A counter is a number under a key that names its window (`domain_key_value_1700000040`). So a new
 * window is a new counter, and an old one only has to be removed some time after its end.
 */

/**
 * Maximum value of a counter: a step that would exceed it stops here. It is a million times the largest limit, and so
 * far below 2^53 that the sum of two counts, and each number on the way through Redis and its client, is exact.
 */
export const maxCount = 2 ** 52 - 1;

/** A change to one counter. */
export interface CounterStep {
  readonly key: string;
  /**
   * A whole number from -maxCount to maxCount. Above 0: added, up to maxCount; the counter begins at 0. 0: read;
   * nothing is created. Below 0: refunded, down to 0; a counter that does not exist is not created.
   */
  readonly hits: number;
  readonly windowSeconds: number;
  /** Seconds since the epoch, on the wall clock. The counter is not used after that. */
  readonly windowEndSeconds: number;
  /**
   * Seconds for which a store keeps the counter at least, from its first step on: longer than the window, so that a
   * clock that is set back over its end finds it. Absent: `windowSeconds`.
   */
  readonly keepSeconds?: number | undefined;
}

/** The counter of one limit of a group, with its limit. */
export type GroupCounter =
  | {
      readonly kind: "aligned";
      readonly key: string;
      readonly limit: number;
      /** Seconds since the epoch. */
      readonly windowEndSeconds: number;
      /** Seconds from now for which the counter is kept, at least to the end of the window. */
      readonly keepSeconds: number;
    }
  | {
      readonly kind: "sliding";
      readonly key: string;
      readonly limit: number;
      readonly windowSeconds: number;
      /** The sub-window of the call (`subWindowAt`). */
      readonly subWindow: number;
    };

/** A change to all counters of one descriptor: all of them count it, or none. */
export interface GroupStep {
  /** At least one, with different keys. In Redis Cluster, all keys have the same slot. */
  readonly counters: readonly GroupCounter[];
  /**
   * A whole number from -maxCount to maxCount. Above 0: added to every counter if none would exceed its limit. 0: read;
   * nothing is created. Below 0: refunded, down to 0; from a sliding window, the oldest hits first.
   */
  readonly hits: number;
  /** Whether hits above 0 are added even if a counter exceeds its limit. */
  readonly countsDenied: boolean;
}

/** The state of one counter of a group, before the step. */
export interface GroupCount {
  /** 0 to `maxCount`. */
  readonly before: number;
  /**
   * Only of a sliding window: the sub-window whose hits must leave before the step would be within the limit; for one
   * that is, the oldest that has hits. Absent if no hits are counted.
   */
  readonly freesWith?: number;
}

/** Returns whether a group counts a step, from the states of its counters. */
export function isCounted(step: GroupStep, counts: readonly GroupCount[]): boolean {
  if (step.hits <= 0) return step.hits < 0;
  if (step.countsDenied) return true;
  return step.counters.every(({ limit }, i) => (counts[i]?.before ?? 0) + step.hits <= limit);
}

/** A counter to set or to delete. */
export interface CounterChange {
  /** `plain`: a counter of `apply`. */
  readonly kind: "plain" | "aligned" | "sliding";
  readonly key: string;
  readonly windowSeconds: number;
  /** Seconds since the epoch. */
  readonly windowEndSeconds: number;
  /** Seconds from now for which the counter is kept. */
  readonly keepSeconds: number;
  /** The current sub-window of a sliding window, otherwise 0. */
  readonly subWindow: number;
  /** The new value, 1 to `maxCount`; absent: the counter is deleted. */
  readonly count?: number;
}

/** A counter, as operators see it. */
export interface LiveCounter {
  /** A very long key may be truncated. */
  readonly key: string;
  readonly count: number;
  readonly windowEndSeconds: number;
}

/** Connections to a store: open now, and opened and closed since the start. */
export interface StoreConnections {
  readonly pool: "redis_pool" | "redis_per_second_pool";
  readonly active: number;
  readonly opened: number;
  readonly closed: number;
}

/**
 * Commands to a store by their outcome, since the start, with envoyproxy/ratelimit's names: `increment`, code `miss`.
 */
export interface StoreCommands {
  readonly name: string;
  readonly code?: string;
  readonly count: number;
}

/** For each step, the state of its counters before it. */
export type GroupCounts = readonly (readonly GroupCount[])[];

/** A store of counters. */
export interface CounterStore {
  /**
   * Applies the steps of one call in their order, in one round trip to a remote store, and returns each counter's value
   * after its step. Each step is atomic among all users of the store; the steps together are not. A remote store
   * rejects with `StoreError` on an error or timeout; a step may then have been applied or not.
   */
  apply(steps: readonly CounterStep[]): readonly number[] | Promise<readonly number[]>;
  /**
   * Applies the steps of one call to groups of counters, in their order, and returns the state of each group's counters
   * before its step. Each step is atomic over its counters among all users of the store. Rejects as `apply` does.
   * Absent if the store has no way to do so.
   */
  applyGroups?(steps: readonly GroupStep[]): GroupCounts | Promise<GroupCounts>;
  /** Sets or deletes counters, in their order. Returns the number that were set, or existed and were deleted. */
  change(changes: readonly CounterChange[]): Promise<number>;
  /**
   * Deletes the counters whose key begins with one of the prefixes, and returns their number. Absent if the store
   * cannot list its counters.
   */
  deleteByPrefix?(prefixes: readonly string[]): number;
  /** Whether the store responds at present; while not, `apply` rejects without delay. */
  isHealthy(): boolean;
  /** Connections to the servers of a remote store, by the name of their metrics, such as `redis_pool`. */
  connections?(): readonly StoreConnections[];
  /** Commands to memcached. */
  commands?(): readonly StoreCommands[];
  /** Returns the counters of running windows, where the store can list them. */
  liveCounters?(): Iterable<LiveCounter>;
  /** Resolves when all resources are released; `apply` must not be called after. */
  close(): Promise<void>;
}

/** The store could not be reached, or did not respond in time. The message is for clients and contains no secret. */
export class StoreError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "StoreError";
  }
}
