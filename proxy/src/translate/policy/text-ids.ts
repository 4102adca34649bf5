/**
 * Numbers texts, and keeps sets of such numbers as bits. A thousand policies may have texts at hundreds of Gateways
 * each: a set of texts for each Gateway would take hundreds of megabytes.
 */

/** The number of each text of a namespace. */
export class TextIds {
  readonly #byNamespace = new Map<string, Map<string, number>>();

  /** Returns the number of a text, the same each time. The numbers of a namespace begin at 0. */
  of(namespace: string, text: string): number {
    const ids = this.#byNamespace.get(namespace) ?? new Map<string, number>();
    this.#byNamespace.set(namespace, ids);
    const id = ids.get(text) ?? ids.size;
    ids.set(text, id);
    return id;
  }
}

/** A set of numbers from 0, each of which takes a bit, also if it is not in the set and a greater one is. */
export class IdSet {
  #words = new Uint32Array(2);

  has(id: number): boolean {
    return ((this.#words[id >>> 5] ?? 0) & (1 << (id & 31))) !== 0;
  }

  add(id: number): void {
    const at = id >>> 5;
    if (at >= this.#words.length) {
      const grown = new Uint32Array(Math.ceil((at + 1) * 1.25));
      grown.set(this.#words);
      this.#words = grown;
    }
    this.#words[at] = (this.#words[at] ?? 0) | (1 << (id & 31));
  }
}
