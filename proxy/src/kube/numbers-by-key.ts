/** Sums by key. Those of 0 take no memory. */
export class NumbersByKey {
  readonly #sums = new Map<string, number>();

  /** The keys with a sum above 0. */
  keys(): Iterable<string> {
    return this.#sums.keys();
  }

  /** The number of keys with a sum above 0. */
  get size(): number {
    return this.#sums.size;
  }

  of(key: string): number {
    return this.#sums.get(key) ?? 0;
  }

  add(key: string, change: number): void {
    const sum = this.of(key) + change;
    if (sum > 0) this.#sums.set(key, sum);
    else this.#sums.delete(key);
  }
}
