/**
 * Counters known to be over their limit, so that a client that hammers an exhausted limit costs the store nothing
 * (LOCAL_CACHE_SIZE_IN_BYTES). An entry says over which limit the counter was: a raised limit asks the store again, and
 * a refund forgets the entry. Refunds through another replica are seen when the window ends, as in the reference.
 */

interface KnownOver {
  readonly requestsPerUnit: number;
  readonly windowEndSeconds: number;
}

/** What one entry costs beside the text of its key: two numbers, the object and its place in the map. */
const entryBytes = 120;

export class OverLimitCache {
  readonly #maxBytes: number;
  readonly #known = new Map<string, KnownOver>();
  #bytes = 0;

  /** @param maxBytes bound on the estimated size; past it the oldest entries go */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Whether a counter is known to be over `requestsPerUnit`. */
  isOver(key: string, requestsPerUnit: number): boolean {
    const known = this.#known.get(key);
    return known !== undefined && requestsPerUnit <= known.requestsPerUnit;
  }

  remember(key: string, requestsPerUnit: number, windowEndSeconds: number, nowSeconds: number): void {
    this.forget(key);
    this.#known.set(key, { requestsPerUnit, windowEndSeconds });
    this.#bytes += sizeOf(key);
    // The key names its window, so an entry of a past window is never asked for: it only has to make room.
    for (const [oldest, { windowEndSeconds: end }] of this.#known) {
      if (end > nowSeconds && this.#bytes <= this.#maxBytes) break;
      this.forget(oldest);
    }
  }

  forget(key: string): void {
    if (this.#known.delete(key)) this.#bytes -= sizeOf(key);
  }

  get size(): number {
    return this.#known.size;
  }
}

function sizeOf(key: string): number {
  return key.length * 2 + entryBytes;
}
