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

/** A store of counters. */
export interface CounterStore {
  /**
   * Applies the steps of one call in their order, in one round trip to a remote store, and returns each counter's value
   * after its step. Each step is atomic among all users of the store; the steps together are not. A remote store
   * rejects with `StoreError` on an error or timeout; a step may then have been applied or not.
   */
  apply(steps: readonly CounterStep[]): readonly number[] | Promise<readonly number[]>;
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
