/**
 * The streams of a connection by their number: a hash table that stays where it is. A `Map` would do, but it takes a new
 * table every few hundred streams, and the old ones, garbage in the old part of the heap, keep their last streams from
 * being collected with the nursery; under load that is most of what the heap then holds.
 *
 * A client's streams have odd, rising numbers, so `number >> 1` spreads them evenly. Deleting moves the streams behind
 * the gap forward, so there are no tombstones and a look ends at the first free place.
 */
/** What a table holds. */
export interface NumberedStream {
  readonly id: number;
}

const initialPlaces = 64;

export class StreamTable<Stream extends NumberedStream> {
  /** A power of two long, and at least half of it free. */
  #places: (Stream | undefined)[] = new Array<Stream | undefined>(initialPlaces).fill(undefined);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get(id: number): Stream | undefined {
    return this.#places[this.#placeOf(id)];
  }

  /** `stream` is not in the table yet. */
  add(stream: Stream): void {
    if ((this.#size + 1) * 2 > this.#places.length) this.#grow();
    this.#places[this.#placeOf(stream.id)] = stream;
    this.#size++;
  }

  /** Harmless when the stream is not there. */
  delete(id: number): void {
    const places = this.#places;
    const mask = places.length - 1;
    let gap = this.#placeOf(id);
    if (places[gap] === undefined) return;
    this.#size--;
    for (let place = (gap + 1) & mask; ; place = (place + 1) & mask) {
      const stream = places[place];
      if (stream === undefined) break;
      const home = (stream.id >> 1) & mask;
      // It may move to the gap unless its home lies behind the gap, on the way to where it is.
      if (((place - home) & mask) >= ((place - gap) & mask)) {
        places[gap] = stream;
        gap = place;
      }
    }
    places[gap] = undefined;
  }

  /** The streams now in the table, in no order; it may change meanwhile. */
  all(): Stream[] {
    return this.#places.filter((stream) => stream !== undefined);
  }

  /** Where the stream is, or the free place where it would be. */
  #placeOf(id: number): number {
    const places = this.#places;
    const mask = places.length - 1;
    let place = (id >> 1) & mask;
    for (let stream = places[place]; stream !== undefined && stream.id !== id; stream = places[place]) {
      place = (place + 1) & mask;
    }
    return place;
  }

  #grow(): void {
    const streams = this.all();
    this.#places = new Array<Stream | undefined>(this.#places.length * 2).fill(undefined);
    for (const stream of streams) this.#places[this.#placeOf(stream.id)] = stream;
  }
}
