/**
 * Splits the bytes of a connection to Redis into whole replies of RESP 2, within bounds. The client library keeps an
 * incomplete reply without a bound, and allocates an array by the length that the server announces.
 */

/** Maximum memory of an incomplete reply, in bytes. The slots of a large cluster take some 4 MiB. */
const maxReplyBytes = 16_777_216;
/** Maximum number of elements in a reply, those of nested arrays included. */
const maxElements = 1_048_576;
/** Maximum depth of nested arrays. */
const maxDepth = 16;
/** Memory of a chunk besides its bytes. */
const chunkOverheadBytes = 256;

const lf = 0x0a;
const cr = 0x0d;
const minus = 0x2d;
const digit0 = 0x30;

/** The splitter of one connection. After an error it must not be used again. */
export class ReplySplitter {
  /** The beginning of a reply whose end has not come. */
  #incomplete: Buffer[] = [];
  #incompleteBytes = 0;
  /** The number of whole replies so far. */
  #replies = 0;
  /** By array that is not complete, the outermost first: the number of elements that are missing. */
  readonly #missing: number[] = [];
  #elements = 0;
  /** The type of the line that is being read, as its character; empty between lines. */
  #type = "";
  /** The characters of the line so far; only for lengths, which are short. */
  #length = "";
  #isAfterCr = false;
  /** The bytes of a bulk string that are missing, with its CRLF. */
  #missingBytes = 0;

  /** The number of whole replies so far. */
  get replies(): number {
    return this.#replies;
  }

  /**
   * Takes the next bytes of the connection, and returns those of all replies that are complete now; `undefined` without
   * any. Throws a `RangeError` when a reply is malformed or exceeds a bound.
   */
  push(chunk: Buffer): Buffer | undefined {
    const end = this.#endOfLastReply(chunk);
    if (end === 0) {
      this.#keep(chunk);
      return undefined;
    }
    const last = chunk.subarray(0, end);
    const whole = this.#incomplete.length === 0 ? last : Buffer.concat([...this.#incomplete, last]);
    this.#incomplete = [];
    this.#incompleteBytes = 0;
    if (end < chunk.length) this.#keep(chunk.subarray(end));
    return whole;
  }

  #keep(chunk: Buffer): void {
    this.#incomplete.push(chunk);
    this.#incompleteBytes += chunk.length + chunkOverheadBytes;
    if (this.#incompleteBytes > maxReplyBytes) throw tooLong();
  }

  /** Returns the place after the last reply that ends in this chunk; 0 without one. */
  #endOfLastReply(chunk: Buffer): number {
    let end = 0;
    for (let at = 0; at < chunk.length; ) {
      if (this.#missingBytes > 0) {
        const taken = Math.min(this.#missingBytes, chunk.length - at);
        at += taken;
        this.#missingBytes -= taken;
        if (this.#missingBytes === 0 && this.#endsReply()) end = at;
      } else if (this.#readByte(chunk[at++] ?? 0)) {
        end = at;
      }
    }
    return end;
  }

  /** Reads one byte of a line; returns whether a reply ends with it. */
  #readByte(byte: number): boolean {
    if (this.#type === "") {
      this.#type = String.fromCharCode(byte);
      if (!"+-:$*".includes(this.#type)) throw new RangeError(`the server sent a reply of the unknown type ${byte}`);
      return false;
    }
    if (this.#isAfterCr) {
      if (byte !== lf) throw new RangeError("the server sent a CR without an LF");
      return this.#endsLine();
    }
    if (byte === cr) this.#isAfterCr = true;
    else if (this.#type === "$" || this.#type === "*") this.#readLength(byte);
    return false;
  }

  #readLength(byte: number): void {
    const isDigit = byte >= digit0 && byte <= digit0 + 9;
    if (!isDigit && !(byte === minus && this.#length === "")) {
      throw new RangeError("the server sent a length that is not a number");
    }
    this.#length += String.fromCharCode(byte);
    if (this.#length.length > 12) throw tooLong();
  }

  /** Ends the line; returns whether a reply ends with it. */
  #endsLine(): boolean {
    const type = this.#type;
    this.#type = "";
    this.#isAfterCr = false;
    if (type !== "$" && type !== "*") return this.#endsReply();
    const text = this.#length;
    this.#length = "";
    // -1 stands for null.
    if (text === "-1") return this.#endsReply();
    if (text === "" || text.startsWith("-")) throw new RangeError(`the server sent the length ${JSON.stringify(text)}`);
    const length = Number(text);
    if (type === "*") return this.#beginsArray(length);
    if (length > maxReplyBytes) throw tooLong();
    this.#missingBytes = length + 2;
    return false;
  }

  #beginsArray(length: number): boolean {
    this.#elements += length;
    if (this.#elements > maxElements) {
      throw new RangeError(`the server sent a reply of more than ${maxElements} elements`);
    }
    if (length === 0) return this.#endsReply();
    this.#missing.push(length);
    if (this.#missing.length > maxDepth) {
      throw new RangeError(`the server sent a reply of more than ${maxDepth} nested arrays`);
    }
    return false;
  }

  /** Ends a value; returns whether it was the last of a reply. */
  #endsReply(): boolean {
    for (;;) {
      const missing = this.#missing.pop();
      if (missing === undefined) break;
      if (missing > 1) {
        this.#missing.push(missing - 1);
        return false;
      }
    }
    this.#elements = 0;
    this.#replies++;
    return true;
  }
}

function tooLong(): RangeError {
  return new RangeError(`the server sent a reply of more than ${maxReplyBytes} bytes`);
}
