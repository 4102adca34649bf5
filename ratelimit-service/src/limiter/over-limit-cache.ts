/**
 * Counters known to be over their limit, so that a client that hammers an exhausted limit costs the store nothing
 * (LOCAL_CACHE_SIZE_IN_BYTES). An entry says over which limit the counter was: a raised limit asks the store again. A
 * refund through any thread of the process ends what was known before it, of all counters, since refunds are rare.
 * Refunds through another replica are seen when the window ends, as in the reference.
 */

/** A counter that was over its limit. */
export interface KnownOver {
  readonly requestsPerUnit: number;
  readonly windowEndSeconds: number;
  /** As it stood when the store was asked. */
  readonly refunds: number;
}

/** What was asked of the cache, and what became of its entries, since the start; `entries` is now. */
export interface OverLimitCacheCounts {
  readonly entries: number;
  readonly hits: number;
  readonly misses: number;
  readonly overwritten: number;
  /** Forgotten for want of room, while their window ran. */
  readonly evicted: number;
  /** Forgotten after the end of their window. */
  readonly expired: number;
}

/** What one entry costs beside the text of its key: three numbers, the object and its place in the map. */
const entryBytes = 120;

export class OverLimitCache {
  readonly #maxBytes: number;
  readonly #refunds: Int32Array;
  readonly #known = new Map<string, KnownOver>();
  #bytes = 0;
  #hits = 0;
  #misses = 0;
  #overwritten = 0;
  #evicted = 0;
  #expired = 0;

  /**
   * @param maxBytes bound on the estimated size; past it the oldest entries go
   * @param refunds one number that all threads count refunds in
   */
  constructor(maxBytes: number, refunds: Int32Array = new Int32Array(1)) {
    this.#maxBytes = maxBytes;
    this.#refunds = refunds;
  }

  /** Refunds so far; what the store says is worth remembering only with the number from before it was asked. */
  get refunds(): number {
    return Atomics.load(this.#refunds, 0);
  }

  /** To be told before the store is asked for a refund, and when it has done it. */
  refunded(): void {
    Atomics.add(this.#refunds, 0, 1);
  }

  /** Whether a counter is known to be over `requestsPerUnit`. */
  isOver(key: string, requestsPerUnit: number): boolean {
    const known = this.#known.get(key);
    const isOver = known !== undefined && known.refunds === this.refunds && requestsPerUnit <= known.requestsPerUnit;
    if (isOver) this.#hits++;
    else this.#misses++;
    return isOver;
  }

  remember(key: string, over: KnownOver, nowSeconds: number): void {
    if (this.#forget(key)) this.#overwritten++;
    this.#known.set(key, over);
    this.#bytes += sizeOf(key);
    // The key names its window, so an entry of a past window is never asked for: it only has to make room.
    for (const [oldest, { windowEndSeconds: end }] of this.#known) {
      if (end > nowSeconds && this.#bytes <= this.#maxBytes) break;
      if (end > nowSeconds) this.#evicted++;
      else this.#expired++;
      this.#forget(oldest);
    }
  }

  #forget(key: string): boolean {
    const wasKnown = this.#known.delete(key);
    if (wasKnown) this.#bytes -= sizeOf(key);
    return wasKnown;
  }

  get counts(): OverLimitCacheCounts {
    const entries = this.#known.size;
    const [hits, misses, overwritten] = [this.#hits, this.#misses, this.#overwritten];
    return { entries, hits, misses, overwritten, evicted: this.#evicted, expired: this.#expired };
  }

  get size(): number {
    return this.#known.size;
  }
}

function sizeOf(key: string): number {
  return key.length * 2 + entryBytes;
}
