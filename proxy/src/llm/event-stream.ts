/**
 * Reads messages of Amazon's binary event streams (`application/vnd.amazon.eventstream`; Smithy 2.0, "Amazon Event
 * Stream Specification"; Amazon Transcribe developer guide, "Event stream encoding").
 *
 * A message is its total length, the length of its headers, a CRC-32 of both (four bytes each, big-endian), the
 * headers, the payload, and a CRC-32 of all bytes before it. A message whose checksum does not match is not used: its
 * lengths or its content are wrong, so that nothing after it can be read either.
 */
import { crc32 } from "node:zlib";

/** The content type of event streams. */
export const eventStreamType = /^\s*application\/vnd\.amazon\.eventstream\b/i;

/** The maximum size of a message that is kept, in bytes. The messages of a model have a few hundred bytes. */
export const maxMessageBytes = 128 * 1024;

/** One message. */
export interface EventStreamMessage {
  /** The headers whose value is a string, by their names, such as `:event-type`. */
  readonly headers: ReadonlyMap<string, string>;
  /** Valid until the next push. */
  readonly payload: Buffer;
}

const preludeBytes = 12;
const checksumBytes = 4;
const minMessageBytes = preludeBytes + checksumBytes;

/** Finds the messages in a byte stream. No method throws, and its memory is bounded by `maxMessageBytes`. */
export class EventStreamReader {
  readonly #report: (message: EventStreamMessage) => void;
  /** The bytes of the current message, or of its prelude while its length is not known. */
  #buffer = Buffer.allocUnsafe(1024);
  #length = 0;
  /** The bytes that the current part has: of the prelude, or of the whole message. */
  #expected = preludeBytes;
  /** The bytes of a message that is longer than the maximum, which are still to come. */
  #toSkip = 0;
  #isMalformed = false;
  #unreadBytes = 0;

  /**
   * Creates a reader.
   *
   * @param report called with each message.
   */
  constructor(report: (message: EventStreamMessage) => void) {
    this.#report = report;
  }

  /** Whether the stream is not in the format, so that its rest was not read. */
  get isMalformed(): boolean {
    return this.#isMalformed;
  }

  /** The number of bytes that were not read: in messages beyond the maximum, and after a malformed one. */
  get unreadBytes(): number {
    return this.#unreadBytes;
  }

  /** The number of bytes in a message that has begun and not ended. */
  get pendingBytes(): number {
    return this.#length;
  }

  /** Reads the next bytes. Keeps no reference to `chunk`. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      at = this.#isMalformed || this.#toSkip > 0 ? this.#skip(chunk, at) : this.#copy(chunk, at);
    }
  }

  #skip(chunk: Buffer, from: number): number {
    const rest = chunk.length - from;
    const skipped = this.#isMalformed ? rest : Math.min(rest, this.#toSkip);
    this.#unreadBytes += skipped;
    this.#toSkip = Math.max(0, this.#toSkip - skipped);
    return from + skipped;
  }

  #copy(chunk: Buffer, from: number): number {
    const copied = chunk.copy(this.#buffer, this.#length, from, from + this.#expected - this.#length);
    this.#length += copied;
    if (this.#length === this.#expected) this.#endPart();
    return from + copied;
  }

  #endPart(): void {
    if (this.#expected === preludeBytes) this.#endPrelude();
    else this.#endMessage();
  }

  #endPrelude(): void {
    const total = this.#buffer.readUInt32BE(0);
    const headersLength = this.#buffer.readUInt32BE(4);
    const isValid = crc32(this.#buffer.subarray(0, 8)) === this.#buffer.readUInt32BE(8);
    if (!isValid || total < minMessageBytes || headersLength > total - minMessageBytes) {
      this.#break();
    } else if (total > maxMessageBytes) {
      this.#toSkip = total - preludeBytes;
      this.#startMessage();
    } else {
      this.#expected = total;
      if (total > this.#buffer.length) this.#buffer = Buffer.concat([this.#buffer], total);
    }
  }

  #endMessage(): void {
    const end = this.#length - checksumBytes;
    const headersEnd = preludeBytes + this.#buffer.readUInt32BE(4);
    const isValid = crc32(this.#buffer.subarray(0, end)) === this.#buffer.readUInt32BE(end);
    const headers = isValid ? readHeaders(this.#buffer.subarray(preludeBytes, headersEnd)) : undefined;
    if (headers === undefined) {
      this.#break();
      return;
    }
    const payload = this.#buffer.subarray(headersEnd, end);
    this.#startMessage();
    this.#report({ headers, payload });
  }

  #startMessage(): void {
    this.#length = 0;
    this.#expected = preludeBytes;
  }

  #break(): void {
    this.#isMalformed = true;
    this.#unreadBytes += this.#length;
    this.#startMessage();
  }
}

const stringType = 7;
/** The sizes of values by their type, in bytes. Byte arrays and strings (6 and 7) begin with their size. */
const valueSizes: readonly (number | undefined)[] = [0, 0, 1, 2, 4, 8, undefined, undefined, 8, 16];

/** @returns undefined if the headers are malformed. */
function readHeaders(bytes: Buffer): ReadonlyMap<string, string> | undefined {
  const headers = new Map<string, string>();
  let at = 0;
  while (at < bytes.length) {
    const nameEnd = at + 1 + (bytes[at] ?? 0);
    const type = bytes[nameEnd];
    if (type === undefined || type >= valueSizes.length) return undefined;
    const fixedSize = valueSizes[type];
    const valueStart = nameEnd + 1 + (fixedSize === undefined ? 2 : 0);
    if (valueStart > bytes.length) return undefined;
    const valueEnd = valueStart + (fixedSize ?? bytes.readUInt16BE(nameEnd + 1));
    if (valueEnd > bytes.length) return undefined;
    if (type === stringType) {
      headers.set(bytes.toString("utf8", at + 1, nameEnd), bytes.toString("utf8", valueStart, valueEnd));
    }
    at = valueEnd;
  }
  return headers;
}
