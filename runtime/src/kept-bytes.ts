/**
 * Bytes that are held, in few pieces. A chunk that Node delivers costs some hundred bytes besides its own, and may be a
 * slice that keeps a whole read of 64 KiB in memory; so small chunks and slices are copied into slabs. However
 * the bytes were cut, they take `memoryBytes` and, for the objects of at most two pieces per slab's size, some percent more.
 */

/** Chunks below this size are copied. It is also the size of a slab. */
const slabBytes = 16 * 1024;
/** What a chunk may take besides its own bytes and still be kept as it is. */
const maxWasteBytes = 4 * 1024;

export class KeptBytes {
  #pieces: Buffer[] = [];
  /** What small chunks are copied to, and how much of it is taken; the part from `#slabStart` on is no piece yet. */
  #slab: Buffer | undefined;
  #slabStart = 0;
  #slabEnd = 0;
  #memoryBytes = 0;
  #length = 0;

  /** Bytes that were pushed and not taken. */
  get length(): number {
    return this.#length;
  }

  /** Of the buffers that hold them. */
  get memoryBytes(): number {
    return this.#memoryBytes;
  }

  push(chunk: Buffer): void {
    // A body of one small chunk is the usual one.
    const isAlone = this.#length === 0;
    this.#length += chunk.length;
    if ((isAlone || chunk.length >= slabBytes) && chunk.buffer.byteLength - chunk.length <= maxWasteBytes) {
      this.#cutSlab();
      this.#pieces.push(chunk);
      this.#memoryBytes += chunk.buffer.byteLength;
    } else this.#copy(chunk);
  }

  /** In their order. */
  pieces(): readonly Buffer[] {
    this.#cutSlab();
    return this.#pieces;
  }

  /** All of them as one buffer, which takes the place of the pieces. */
  join(): Buffer {
    const pieces = this.pieces();
    const [only] = pieces;
    if (pieces.length === 1 && only !== undefined) return only;
    const whole = Buffer.concat(pieces);
    this.#clear();
    this.#pieces = [whole];
    this.#length = whole.length;
    this.#memoryBytes = whole.length;
    return whole;
  }

  /** As `join`, and nothing is held any more; undefined where nothing is. */
  take(): Buffer | undefined {
    if (this.#length === 0) return undefined;
    const whole = this.join();
    this.#clear();
    return whole;
  }

  #clear(): void {
    this.#pieces = [];
    this.#slab = undefined;
    this.#memoryBytes = 0;
    this.#length = 0;
  }

  #copy(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      const slab = this.#slab === undefined || this.#slabEnd === slabBytes ? this.#openSlab() : this.#slab;
      const copied = chunk.copy(slab, this.#slabEnd, at);
      at += copied;
      this.#slabEnd += copied;
    }
  }

  #openSlab(): Buffer {
    this.#cutSlab();
    const slab = Buffer.allocUnsafeSlow(slabBytes);
    this.#slab = slab;
    this.#slabStart = 0;
    this.#slabEnd = 0;
    this.#memoryBytes += slabBytes;
    return slab;
  }

  /** Makes a piece of what has been copied to the slab since the last one. */
  #cutSlab(): void {
    if (this.#slab === undefined || this.#slabStart === this.#slabEnd) return;
    this.#pieces.push(this.#slab.subarray(this.#slabStart, this.#slabEnd));
    this.#slabStart = this.#slabEnd;
  }
}
