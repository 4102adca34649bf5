/** A label whose values come from outside: the first `max` values are kept, and each later one is `other`. */
export class BoundedLabel {
  readonly #max: number;
  readonly #known: Set<string>;

  constructor(max: number, known: Iterable<string> = []) {
    this.#max = max;
    this.#known = new Set(known);
  }

  of(value: string): string {
    if (this.#known.has(value)) return value;
    if (this.#known.size >= this.#max) return "other";
    this.#known.add(value);
    return value;
  }
}
