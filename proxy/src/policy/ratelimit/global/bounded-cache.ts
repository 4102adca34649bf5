/** A cache of a fixed size. Each item has its own expiry on the caller's clock. */
import NodeCache from "node-cache";

interface Item<Value> {
  readonly value: Value;
  readonly expiresMs: number;
}

export class BoundedCache<Value> {
  readonly #maxItems: number;
  readonly #items: NodeCache;

  /** @param maxItems Beyond it the oldest items are removed. */
  constructor(maxItems: number) {
    this.#maxItems = maxItems;
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
    this.#items.del(key);
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

  set(key: string, value: Value, expiresMs: number): void {
    if (this.#items.getStats().keys >= this.#maxItems && !this.#items.has(key)) this.#evict();
    this.#items.set<Item<Value>>(key, { value, expiresMs });
  }

  delete(key: string): void {
    this.#items.del(key);
  }

  /** Removes a sixteenth of the items at a time, since listing the keys takes time in proportion to their number. */
  #evict(): void {
    this.#items.del(this.#items.keys().slice(0, Math.ceil(this.#maxItems / 16)));
  }
}
