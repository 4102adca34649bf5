/** A map from strings to numbers that drops the older half when it is full, in one step. */
export class RecentKeys {
  readonly #half: number;
  readonly #maxLength: number;
  #recent = new Map<string, number>();
  #older = new Map<string, number>();

  /**
   * @param capacity maximum number of entries; at least half as many are kept
   * @param maxLength longer strings are never stored
   */
  constructor(capacity: number, maxLength: number) {
    this.#maxLength = maxLength;
    this.#half = Math.max(1, Math.floor(capacity / 2));
  }

  /** Returns the number of a stored string. */
  get(key: string): number | undefined {
    return this.#recent.get(key) ?? this.#older.get(key);
  }

  set(key: string, value: number): void {
    if (key.length > this.#maxLength) return;
    if (this.#recent.size >= this.#half && !this.#recent.has(key)) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(key, value);
  }

  delete(key: string): void {
    this.#recent.delete(key);
    this.#older.delete(key);
  }

  clear(): void {
    this.#recent.clear();
    this.#older.clear();
  }
}
