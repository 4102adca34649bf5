/** A set of texts that forgets the oldest half when it is full, in one step and without a list. */
export class RecentKeys {
  readonly #half: number;
  readonly #maxLength: number;
  #recent = new Set<string>();
  #older = new Set<string>();

  /**
   * @param capacity holds at least half as many at any time, and never more
   * @param maxLength a longer text is never held
   */
  constructor(capacity: number, maxLength: number) {
    this.#maxLength = maxLength;
    this.#half = Math.max(1, Math.floor(capacity / 2));
  }

  has(key: string): boolean {
    return this.#recent.has(key) || this.#older.has(key);
  }

  add(key: string): void {
    if (key.length > this.#maxLength) return;
    if (this.#recent.size >= this.#half) {
      this.#older = this.#recent;
      this.#recent = new Set();
    }
    this.#recent.add(key);
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
