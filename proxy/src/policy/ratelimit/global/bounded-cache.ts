/** A cache of a fixed size whose items end at a time of their own, on the clock of whoever asks. */
import NodeCache from "node-cache";

interface Item<Value> {
  readonly value: Value;
  readonly untilMs: number;
}

export class BoundedCache<Value> {
  readonly #maxItems: number;
  readonly #items: NodeCache;

  /** @param maxItems beyond it the items that were put first go. */
  constructor(maxItems: number) {
    this.#maxItems = maxItems;
    // Items end by our clock, which tests can move; the library's own is switched off.
    this.#items = new NodeCache({ maxKeys: maxItems, useClones: false, stdTTL: 0, checkperiod: 0 });
  }

  /** Items held, those included whose time is over and that nobody has asked for since. */
  get size(): number {
    return this.#items.getStats().keys;
  }

  get isEmpty(): boolean {
    return this.size === 0;
  }

  get(key: string, nowMs: number): Value | undefined {
    const item = this.#items.get<Item<Value>>(key);
    if (item === undefined) return undefined;
    if (item.untilMs > nowMs) return item.value;
    this.#items.del(key);
    return undefined;
  }

  /** At most `max` of the items that have not ended, in no order. */
  values(nowMs: number, max: number): readonly Value[] {
    const values: Value[] = [];
    for (const key of this.#items.keys()) {
      const value = values.length < max ? this.get(key, nowMs) : undefined;
      if (value !== undefined) values.push(value);
    }
    return values;
  }

  set(key: string, value: Value, untilMs: number): void {
    if (this.#items.getStats().keys >= this.#maxItems && !this.#items.has(key)) this.#makeRoom();
    this.#items.set<Item<Value>>(key, { value, untilMs });
  }

  delete(key: string): void {
    this.#items.del(key);
  }

  /** A sixteenth at a time: to list the keys costs as much as there are. */
  #makeRoom(): void {
    this.#items.del(this.#items.keys().slice(0, Math.ceil(this.#maxItems / 16)));
  }
}
