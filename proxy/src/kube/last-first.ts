/** Items of which the last one that was added is taken first. A place keeps its order when its item changes. */
export class LastFirst<Item> {
  readonly #stack: Place<Item>[] = [];
  #size = 0;

  /** The number of items. */
  get size(): number {
    return this.#size;
  }

  /** Adds an item in a place of its own. */
  add(item: Item): Place<Item> {
    const place = { item };
    this.#stack.push(place);
    this.#size++;
    return place;
  }

  /** Removes an item. */
  remove(place: Place<Item>): void {
    if (place.item === undefined) return;
    place.item = undefined;
    this.#size--;
    // Places without an item are dropped when they are many, or when they are last.
    if (this.#stack.length < 2 * this.#size + 16) return;
    const kept = this.#stack.filter(({ item }) => item !== undefined);
    this.#stack.length = 0;
    for (const each of kept) this.#stack.push(each);
  }

  /** Returns the last item; undefined if there is none. */
  last(): Item | undefined {
    while (this.#stack.length > 0 && this.#stack.at(-1)?.item === undefined) this.#stack.pop();
    return this.#stack.at(-1)?.item;
  }
}

/** The place of an item. */
export interface Place<Item> {
  /** Undefined once it is removed. */
  item: Item | undefined;
}
