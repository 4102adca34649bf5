/**
 * The streams of a connection by their identifier: a hash table with stable memory. A `Map` allocates a new table every
 * few hundred streams. The old tables, garbage in the old generation, keep their last streams alive in the young
 * generation; under load they would be most of the heap.
 *
 * A client's streams have odd, rising identifiers, so `id >> 1` spreads them evenly. Deletion moves the following
 * streams into the gap, so there are no tombstones and a search ends at the first free slot.
 */

/** An element of a `StreamTable`. */
export interface NumberedStream {
  readonly id: number;
}

const initialSlots = 64;

/** A hash table of streams. */
export class StreamTable<Stream extends NumberedStream> {
  /** The slots: a power of two, at least half of them free. */
  #slots: (Stream | undefined)[] = new Array<Stream | undefined>(initialSlots).fill(undefined);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(id: number): Stream | undefined {
    return this.#slots[this.#slotOf(id)];
  }

  /** Adds a stream that is not in the table. */
  add(stream: Stream): void {
    if ((this.#size + 1) * 2 > this.#slots.length) this.#grow();
    this.#slots[this.#slotOf(stream.id)] = stream;
    this.#size++;
  }

  /** Removes a stream; no effect if it is not in the table. */
  delete(id: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let gap = this.#slotOf(id);
    if (slots[gap] === undefined) return;
    this.#size--;
    for (let slot = (gap + 1) & mask; ; slot = (slot + 1) & mask) {
      const stream = slots[slot];
      if (stream === undefined) break;
      const home = (stream.id >> 1) & mask;
      // It may move into the gap unless its home slot lies after the gap, on the way to its current slot.
      if (((slot - home) & mask) >= ((slot - gap) & mask)) {
        slots[gap] = stream;
        gap = slot;
      }
    }
    slots[gap] = undefined;
  }

  /** Returns a copy of the list of streams, in no particular order. */
  all(): Stream[] {
    return this.#slots.filter((stream) => stream !== undefined);
  }

  /** Returns the slot of the stream, or the free slot where it would be. */
  #slotOf(id: number): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let slot = (id >> 1) & mask;
    for (let stream = slots[slot]; stream !== undefined && stream.id !== id; stream = slots[slot]) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  #grow(): void {
    const streams = this.all();
    this.#slots = new Array<Stream | undefined>(this.#slots.length * 2).fill(undefined);
    for (const stream of streams) this.#slots[this.#slotOf(stream.id)] = stream;
  }
}
