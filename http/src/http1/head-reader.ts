/** Collects the bytes of a head until its empty line is received. */
import { MessageError } from "./message-error.ts";

const endOfHead = Buffer.from("\r\n\r\n");

/** Collects one head after the other. */
export class HeadReader {
  readonly #maxBytes: number;
  /** The received part of an incomplete head; grows by doubling. */
  #bytes: Buffer | undefined;
  #length = 0;

  /** @param maxBytes maximum length of a head with its empty line. A longer one gets 431. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of the incomplete head. */
  get length(): number {
    return this.#length;
  }

  /**
   * Reads more of a head.
   *
   * @returns the head in latin1, with the CRLF of its last line and without the empty line, and the position after it
   * in
   *   `chunk`; undefined if the head is incomplete.
   * @throws `MessageError` if it exceeds the maximum.
   */
  read(chunk: Buffer, start: number): { readonly text: string; readonly end: number } | undefined {
    return this.#bytes === undefined ? this.#readWhole(chunk, start) : this.#readOn(this.#bytes, chunk, start);
  }

  /** Reads a head that begins in this chunk. Usually the chunk contains the whole head. */
  #readWhole(chunk: Buffer, start: number) {
    const end = chunk.indexOf(endOfHead, start);
    if (end === -1) {
      this.#keep(Buffer.alloc(0), chunk, start, chunk.length);
      return undefined;
    }
    if (end + 4 - start > this.#maxBytes) throw tooLarge();
    return { text: chunk.toString("latin1", start, end + 2), end: end + 4 };
  }

  #readOn(before: Buffer, chunk: Buffer, start: number) {
    const known = this.#length;
    const end = Math.min(chunk.length, start + this.#maxBytes - known + 1);
    const bytes = this.#keep(before, chunk, start, end);
    const found = bytes.subarray(0, this.#length).indexOf(endOfHead, Math.max(0, known - 3));
    if (found === -1) {
      if (this.#length > this.#maxBytes) throw tooLarge();
      return undefined;
    }
    if (found + 4 > this.#maxBytes) throw tooLarge();
    const text = bytes.toString("latin1", 0, found + 2);
    this.#bytes = undefined;
    this.#length = 0;
    return { text, end: start + found + 4 - known };
  }

  #keep(before: Buffer, chunk: Buffer, start: number, end: number): Buffer {
    const length = this.#length + end - start;
    if (length > this.#maxBytes + 1) throw tooLarge();
    const fits = length <= before.length;
    const bytes = fits ? before : Buffer.allocUnsafe(Math.max(1_024, length, before.length * 2));
    if (!fits) before.copy(bytes, 0, 0, this.#length);
    chunk.copy(bytes, this.#length, start, end);
    this.#bytes = bytes;
    this.#length = length;
    return bytes;
  }
}

function tooLarge(): MessageError {
  return new MessageError(431, "header fields too large");
}
