/**
 * Where counters live. A counter is a number under a key that names its window (`domain_key_value_1700000040`), so a new
 * window is a new counter and an old one only has to be forgotten some time after its end.
 */

/**
 * The most that a counter holds: a step that would exceed it ends here. A million times what a limit can be, and so far
 * below 2^53 that the sum of two counts, and each number on the way through Redis and its client, is exact.
 */
export const maxCount = 2 ** 52 - 1;

/** A change to one counter. */
export interface CounterStep {
  readonly key: string;
  /**
   * A whole number from -maxCount to maxCount. Above 0: added, up to maxCount; the counter begins at 0. 0: read, nothing is created. Below 0: given back, but never below 0, and a
   * counter that does not exist stays so.
   */
  readonly hits: number;
  readonly windowSeconds: number;
  /** Seconds since the epoch, on the wall clock; nobody asks for the counter after that. */
  readonly windowEndSeconds: number;
}

/** A counter as an operator sees it. */
export interface LiveCounter {
  /** A very long key may be cut. */
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

/** Commands to a store by their outcome, since the start, as the reference counts them: `increment`, code `miss`. */
export interface StoreCommands {
  readonly name: string;
  readonly code?: string;
  readonly count: number;
}

export interface CounterStore {
  /**
   * Takes the steps of one call in their order, in one round trip where there is a way to go, and answers each counter's
   * value after its step. Each step is atomic among all users of the store; the steps together are not. A remote store
   * rejects with `StoreError` when it cannot tell; then a step may have been taken or not.
   */
  apply(steps: readonly CounterStep[]): readonly number[] | Promise<readonly number[]>;
  /** Whether the store would answer now; while not, `apply` rejects without delay. */
  isHealthy(): boolean;
  /** Connections to the servers of a remote store, by the name of their metrics: `redis_pool`. */
  connections?(): readonly StoreConnections[];
  /** What memcached was asked. */
  commands?(): readonly StoreCommands[];
  /** The counters of running windows, where the store can list them. */
  liveCounters?(): Iterable<LiveCounter>;
  /** Resolves when everything is let go; `apply` must not be called after. */
  close(): Promise<void>;
}

/** The store could not be asked, or did not answer in time. The message is for clients and holds no secret. */
export class StoreError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "StoreError";
  }
}
