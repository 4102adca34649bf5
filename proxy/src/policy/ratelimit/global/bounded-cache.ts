/**
 * A cache of a bounded number of items and bytes, which owners share. Each item has its own expiry on the caller's
 * clock.
 */
import NodeCache from "node-cache";

/** Beyond a bound, the owner of the most bytes loses its oldest items. */
export interface CacheBounds {
  readonly maxItems: number;
  /** The sum of the items' `bytes`. */
  readonly maxBytes: number;
}

/** What the cache knows of an item. */
export interface ItemProperties {
  /** Who shares the cache with others, such as a namespace. */
  readonly owner: string;
  readonly expiresMs: number;
  /** Its memory. An item that exceeds the bound alone is not kept. */
  readonly bytes: number;
}

interface Item<Value> extends ItemProperties {
  readonly value: Value;
}

interface Owned {
  bytes: number;
  /** The oldest first. */
  readonly keys: Set<string>;
}

/** A cache whose owners have a fair share: one that adds items removes those of others only while they have more. */
export class BoundedCache<Value> {
  readonly #bounds: CacheBounds;
  readonly #items: NodeCache;
  readonly #owners = new Map<string, Owned>();
  #bytes = 0;

  constructor(bounds: CacheBounds) {
    this.#bounds = bounds;
    // Expiry uses the caller's clock, so the library's own is disabled.
    this.#items = new NodeCache({ maxKeys: bounds.maxItems, useClones: false, stdTTL: 0, checkperiod: 0 });
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

  /** Returns the items that have not expired, in no order. */
  *values(nowMs: number): Iterable<Value> {
    for (const key of this.#items.keys()) {
      const value = this.get(key, nowMs);
      if (value !== undefined) yield value;
    }
  }

  set(key: string, value: Value, properties: ItemProperties): void {
    this.delete(key);
    const { owner, bytes } = properties;
    const { maxItems, maxBytes } = this.#bounds;
    if (bytes > maxBytes) return;
    while (this.size >= maxItems || this.#bytes + bytes > maxBytes) this.#evict();
    this.#items.set<Item<Value>>(key, { ...properties, value });
    this.#bytes += bytes;
    const owned = this.#owners.get(owner) ?? { bytes: 0, keys: new Set() };
    owned.bytes += bytes;
    owned.keys.add(key);
    this.#owners.set(owner, owned);
  }

  delete(key: string): void {
    const item = this.#items.take<Item<Value>>(key);
    if (item === undefined) return;
    this.#bytes -= item.bytes;
    const owned = this.#owners.get(item.owner);
    if (owned === undefined) return;
    owned.bytes -= item.bytes;
    owned.keys.delete(key);
    if (owned.keys.size === 0) this.#owners.delete(item.owner);
  }

  /** Removes the items that `isRemoved`. */
  deleteWhere(isRemoved: (value: Value) => boolean): void {
    for (const key of this.#items.keys()) {
      const item = this.#items.get<Item<Value>>(key);
      if (item !== undefined && isRemoved(item.value)) this.delete(key);
    }
  }

  /** Removes a sixteenth of the largest owner's items at a time, since finding that owner takes time. */
  #evict(): void {
    let largest: Owned | undefined;
    for (const owned of this.#owners.values()) if (owned.bytes >= (largest?.bytes ?? 0)) largest = owned;
    if (largest === undefined) return;
    const oldest = Array.from(largest.keys).slice(0, Math.ceil(largest.keys.size / 16));
    for (const key of oldest) this.delete(key);
  }
}
