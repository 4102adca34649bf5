/** A map from texts to numbers that forgets the oldest half when it is full, in one step and without a list. */
export class RecentKeys {
  readonly #half: number;
  readonly #maxLength: number;
  #recent = new Map<string, number>();
  #older = new Map<string, number>();

  /**
   * @param capacity holds at least half as many at any time, and never more
   * @param maxLength a longer text is never held
   */
  constructor(capacity: number, maxLength: number) {
    this.#maxLength = maxLength;
    this.#half = Math.max(1, Math.floor(capacity / 2));
  }

  /** The number of a text that is held. */
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
