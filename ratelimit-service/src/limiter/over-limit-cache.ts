/**
 * A cache of counters that are over their limit, so that a client which keeps sending causes no calls to the store
 * (LOCAL_CACHE_SIZE_IN_BYTES). An entry records the limit that was exceeded: after the limit is raised, the store is
 * used again. A refund by any thread of the process invalidates all older entries, since refunds are rare. Refunds by
 * another replica have an effect in the next window, as in envoyproxy/ratelimit.
 */

/** A counter that was over its limit. */
export interface OverLimitEntry {
  readonly requestsPerUnit: number;
  readonly windowEndSeconds: number;
  /** Number of refunds when the store was queried. */
  readonly refunds: number;
}

/** Lookups in the cache and changes of its entries since the start; `entries` is the current number. */
export interface OverLimitCacheCounts {
  readonly entries: number;
  readonly hits: number;
  readonly misses: number;
  readonly overwritten: number;
  /** Entries that were evicted for lack of space before their window ended. */
  readonly evicted: number;
  /** Entries that were evicted after the end of their window. */
  readonly expired: number;
}

/** Memory of one entry beside the text of its key, in bytes: three numbers, the object and its slot in the map. */
const entryBytes = 120;

/**
 * The over-limit cache of one thread, in the order of insertion. Entries of past windows are removed at the next
 * insertion.
 */
export class OverLimitCache {
  readonly #maxBytes: number;
  readonly #refunds: Int32Array;
  readonly #entries = new Map<string, OverLimitEntry>();
  #bytes = 0;
  #hits = 0;
  #misses = 0;
  #overwritten = 0;
  #evicted = 0;
  #expired = 0;

  /**
   * @param maxBytes bound on the estimated size; beyond it the oldest entries are evicted
   * @param refunds one number in which all threads count refunds
   */
  constructor(maxBytes: number, refunds: Int32Array = new Int32Array(1)) {
    this.#maxBytes = maxBytes;
    this.#refunds = refunds;
  }

  /** Number of refunds so far. A result of the store is cached with the number from before the query. */
  get refunds(): number {
    return Atomics.load(this.#refunds, 0);
  }

  /** Counts a refund. Called before a refund is sent to the store, and again after it. */
  countRefund(): void {
    Atomics.add(this.#refunds, 0, 1);
  }

  /** Whether a counter is known to be over `requestsPerUnit`. */
  isOver(key: string, requestsPerUnit: number): boolean {
    return this.overUntil(key, requestsPerUnit) !== undefined;
  }

  /** Returns the second until which a counter is known to be over `requestsPerUnit`; `undefined` if it is not. */
  overUntil(key: string, requestsPerUnit: number): number | undefined {
    const entry = this.#entries.get(key);
    const isOver = entry !== undefined && entry.refunds === this.refunds && requestsPerUnit <= entry.requestsPerUnit;
    if (isOver) this.#hits++;
    else this.#misses++;
    return isOver ? entry.windowEndSeconds : undefined;
  }

  set(key: string, over: OverLimitEntry, nowSeconds: number): void {
    if (this.#delete(key)) this.#overwritten++;
    this.#entries.set(key, over);
    this.#bytes += sizeOf(key);
    // The key names its window, so an entry of a past window is never looked up: it only takes space.
    for (const [oldest, { windowEndSeconds: end }] of this.#entries) {
      if (end > nowSeconds && this.#bytes <= this.#maxBytes) break;
      if (end > nowSeconds) this.#evicted++;
      else this.#expired++;
      this.#delete(oldest);
    }
  }

  #delete(key: string): boolean {
    const existed = this.#entries.delete(key);
    if (existed) this.#bytes -= sizeOf(key);
    return existed;
  }

  get counts(): OverLimitCacheCounts {
    const entries = this.#entries.size;
    const [hits, misses, overwritten] = [this.#hits, this.#misses, this.#overwritten];
    return { entries, hits, misses, overwritten, evicted: this.#evicted, expired: this.#expired };
  }

  get size(): number {
    return this.#entries.size;
  }
}

function sizeOf(key: string): number {
  return key.length * 2 + entryBytes;
}
