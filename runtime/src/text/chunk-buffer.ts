/**
 * A buffer of chunks with bounded overhead. A chunk from Node costs some hundred bytes besides its own, and may be a
 * slice that keeps a whole read of 64 KiB in memory. Small chunks and slices are therefore copied into slabs. However
 * the bytes were split, they take `memoryBytes`, plus a few percent for the objects of at most two pieces per slab.
 */

/** The size of a slab, and the size below which chunks are copied. */
const slabBytes = 16 * 1024;
/** The memory that a chunk may hold besides its own bytes and still be kept without a copy. */
const maxWasteBytes = 4 * 1024;

/** A buffer of chunks that copies small chunks together. */
export class ChunkBuffer {
  #pieces: Buffer[] = [];
  /** The slab that small chunks are copied to. Its part from `#slabStart` to `#slabEnd` is not a piece yet. */
  #slab: Buffer | undefined;
  #slabStart = 0;
  #slabEnd = 0;
  #memoryBytes = 0;
  #length = 0;

  /** The number of bytes in the buffer. */
  get length(): number {
    return this.#length;
  }

  /** The size of the memory that holds the bytes. */
  get memoryBytes(): number {
    return this.#memoryBytes;
  }

  push(chunk: Buffer): void {
    // A body usually has one small chunk.
    const isAlone = this.#length === 0;
    this.#length += chunk.length;
    if ((isAlone || chunk.length >= slabBytes) && chunk.buffer.byteLength - chunk.length <= maxWasteBytes) {
      this.#cutSlab();
      this.#pieces.push(chunk);
      this.#memoryBytes += chunk.buffer.byteLength;
    } else {
      this.#copy(chunk);
    }
  }

  /** Returns the bytes in order, as buffers. */
  pieces(): readonly Buffer[] {
    this.#cutSlab();
    return this.#pieces;
  }

  /** Returns all bytes as one buffer, and keeps that buffer instead of the pieces. */
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

  /** As `join`, but empties the buffer; undefined if it is empty. */
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

  /** Makes a piece of the bytes that were copied to the slab since the last piece. */
  #cutSlab(): void {
    if (this.#slab === undefined || this.#slabStart === this.#slabEnd) return;
    this.#pieces.push(this.#slab.subarray(this.#slabStart, this.#slabEnd));
    this.#slabStart = this.#slabEnd;
  }
}
