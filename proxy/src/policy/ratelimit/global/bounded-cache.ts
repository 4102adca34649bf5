/** A cache of a bounded number of items and bytes. Each item has its own expiry on the caller's clock. */
import NodeCache from "node-cache";

interface Item<Value> {
  readonly value: Value;
  readonly expiresMs: number;
  readonly bytes: number;
}

/** Beyond a bound the oldest items are removed. */
export interface CacheBounds {
  readonly maxItems: number;
  /** The sum of the items' `bytes`; absent: unlimited. */
  readonly maxBytes?: number;
}

/** A cache whose oldest items make room for new ones. */
export class BoundedCache<Value> {
  readonly #maxItems: number;
  readonly #maxBytes: number;
  readonly #items: NodeCache;
  #bytes = 0;

  constructor({ maxItems, maxBytes = Infinity }: CacheBounds) {
    this.#maxItems = maxItems;
    this.#maxBytes = maxBytes;
    // Expiry uses the caller's clock, so the library's own is disabled.
    this.#items = new NodeCache({ maxKeys: maxItems, useClones: false, stdTTL: 0, checkperiod: 0 });
  }

  /** Items in the cache, expired items that were not read since included. */
  get size(): number {
    return this.#items.getStats().keys;
  }

  get isEmpty(): boolean {
    return this.size === 0;
  }

  get(key: string, nowMs: number): Value | undefined {
    const item = this.#items.get<Item<Value>>(key);
    if (item === undefined) return undefined;
    if (item.expiresMs > nowMs) return item.value;
    this.delete(key);
    return undefined;
  }

  /** Returns at most `max` of the items that have not expired, in no order. */
  values(nowMs: number, max: number): readonly Value[] {
    const values: Value[] = [];
    for (const key of this.#items.keys()) {
      const value = values.length < max ? this.get(key, nowMs) : undefined;
      if (value !== undefined) values.push(value);
    }
    return values;
  }

  /** @param bytes the memory of the item. One that exceeds the bound alone is not kept. */
  set(key: string, value: Value, expiresMs: number, bytes = 0): void {
    this.delete(key);
    if (bytes > this.#maxBytes) return;
    while (this.size >= this.#maxItems || this.#bytes + bytes > this.#maxBytes) this.#evict();
    this.#items.set<Item<Value>>(key, { value, expiresMs, bytes });
    this.#bytes += bytes;
  }

  delete(key: string): void {
    this.#bytes -= this.#items.take<Item<Value>>(key)?.bytes ?? 0;
  }

  /** Removes a sixteenth of the items at a time, since listing the keys takes time in proportion to their number. */
  #evict(): void {
    const keys = this.#items.keys();
    for (const key of keys.slice(0, Math.ceil(keys.length / 16))) this.delete(key);
  }
}
