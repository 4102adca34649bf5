/**
 * Reads protobuf's wire format (protobuf.dev, "Encoding") from one buffer, strictly: truncated, overlong or non-UTF-8
 * input is rejected. The caller gives meaning to the fields.
 */

/** Thrown for bytes that are not the expected message. */
export class WireError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "WireError";
  }
}

/** Wire types of fields. Groups (3, 4) do not exist in proto3 and are rejected. */
export const WireType = { Varint: 0, Fixed64: 1, Bytes: 2, Fixed32: 5 } as const;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The greatest length in bytes of a text that is read character by character, without a call of the decoder. */
const shortTextBytes = 24;

/**
 * A cursor over protobuf bytes. Each method reads at `position`, moves it, and throws `WireError` if the value does not
 * end at or before `end`.
 */
export class WireReader {
  readonly #buffer: Buffer;
  /** Next byte to read. */
  position: number;

  /** Reads `buffer` from `position` on. The caller tracks where messages end. */
  constructor(buffer: Buffer, position = 0) {
    this.#buffer = buffer;
    this.position = position;
  }

  /** Reads a field's number and wire type, as one number: `number << 3 | type`. */
  readTag(end: number): number {
    const tag = this.readVarint(end);
    if (tag > 0xffff_ffff || tag >>> 3 === 0) throw new WireError(`field number ${Math.floor(tag / 8)} does not exist`);
    return tag;
  }

  /** Reads an unsigned integer of up to 64 bits; above 2^53 as the nearest number. */
  readVarint(end: number): number {
    const buffer = this.#buffer;
    let at = this.position;
    const first = buffer[at] ?? 0;
    if (at < end && first < 0x80) {
      this.position = at + 1;
      return first;
    }
    let value = 0;
    let scale = 1;
    for (let count = 0; count < 10; count++) {
      if (at >= end) throw new WireError("the message ends within a number");
      const byte = buffer[at++] ?? 0;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (count === 9 && byte > 1) break;
        this.position = at;
        return value;
      }
      scale *= 128;
    }
    throw new WireError("a number has more than 64 bits");
  }

  /** Reads a `uint32`; of a longer number the low 32 bits, as every implementation does. */
  readUint32(end: number): number {
    return this.#low32(end) >>> 0;
  }

  /** Reads an `int32` or an enum; negative ones have ten bytes. */
  readInt32(end: number): number {
    return this.#low32(end) | 0;
  }

  /** Reads a length and returns the end of the length-delimited field. */
  readEnd(end: number): number {
    const length = this.readVarint(end);
    const fieldEnd = this.position + length;
    if (fieldEnd > end) throw new WireError("a field is longer than the message that holds it");
    return fieldEnd;
  }

  readDouble(end: number): number {
    const start = this.position;
    this.#advance(8, end);
    return this.#buffer.readDoubleLE(start);
  }

  readString(end: number): string {
    const stop = this.readEnd(end);
    const start = this.position;
    this.position = stop;
    const buffer = this.#buffer;
    if (stop - start <= shortTextBytes) {
      let text = "";
      for (let at = start; at < stop; at++) {
        const byte = buffer[at] ?? 0;
        if (byte >= 0x80) return this.#readUtf8(start, stop);
        text += String.fromCharCode(byte);
      }
      return text;
    }
    return this.#readUtf8(start, stop);
  }

  /** Skips a field. */
  skip(tag: number, end: number): void {
    switch (tag & 7) {
      case WireType.Varint:
        this.readVarint(end);
        return;
      case WireType.Fixed64:
        this.#advance(8, end);
        return;
      case WireType.Bytes:
        this.position = this.readEnd(end);
        return;
      case WireType.Fixed32:
        this.#advance(4, end);
        return;
      default:
        throw new WireError(`wire type ${tag & 7} is not supported`);
    }
  }

  #advance(bytes: number, end: number): void {
    if (this.position + bytes > end) throw new WireError("the message ends within a field");
    this.position += bytes;
  }

  #low32(end: number): number {
    const first = this.#buffer[this.position] ?? 0;
    if (first < 0x80 && this.position < end) {
      this.position++;
      return first;
    }
    const start = this.position;
    this.readVarint(end);
    let bits = 0;
    for (let at = start, shift = 0; at < this.position && shift < 32; at++, shift += 7) {
      bits |= ((this.#buffer[at] ?? 0) & 0x7f) << shift;
    }
    return bits;
  }

  #readUtf8(start: number, stop: number): string {
    try {
      return utf8.decode(this.#buffer.subarray(start, stop));
    } catch {
      throw new WireError("a string is not UTF-8");
    }
  }
}
