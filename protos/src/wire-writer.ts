/** Writes protobuf's wire format (protobuf.dev, "Encoding") into a buffer that grows and is reused. */

const initialBytes = 4_096;
/** A larger buffer, grown for one large message, is not reused. */
const keptBytes = 262_144;
/** Longer strings are measured before they are written. */
const shortTextCharacters = 42;

export class WireWriter {
  #buffer: Buffer = Buffer.allocUnsafeSlow(initialBytes);
  #length = 0;

  /** The number of bytes since the last `take`. */
  get length(): number {
    return this.#length;
  }

  /** Returns a copy of the bytes since the last `take`; the caller owns it. */
  take(): Buffer {
    const message = Buffer.allocUnsafe(this.#length);
    this.#buffer.copy(message, 0, 0, this.#length);
    this.#length = 0;
    if (this.#buffer.length > keptBytes) this.#buffer = Buffer.allocUnsafeSlow(initialBytes);
    return message;
  }

  /** Discards the written bytes. */
  reset(): void {
    this.#length = 0;
  }

  /** Writes a varint field; omits 0, as proto3 does. `value` is an integer from 0 to 2^53. */
  uint(field: number, value: number): void {
    if (value !== 0) {
      this.#varint(field << 3);
      this.#varint(value);
    }
  }

  /** Writes a varint field of an int64 even when 0, for members of a oneof. `value` is a safe integer. */
  presentInt(field: number, value: number): void {
    this.#varint(field << 3);
    if (value >= 0) {
      this.#varint(value);
      return;
    }
    // Two's complement of 64 bits.
    for (let rest = BigInt.asUintN(64, BigInt(value)); rest > 0n; rest >>= 7n) {
      this.#reserve(1);
      this.#buffer[this.#length++] = Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0);
    }
  }

  /** Writes a varint field, even when 0, for fields with presence. `value` is an integer from 0 to 2^53. */
  presentUint(field: number, value: number): void {
    this.#varint(field << 3);
    this.#varint(value);
  }

  /** Writes a sint32 or sint64 field, even when 0. `value` is an integer from -2^52 to 2^52. */
  sint(field: number, value: number): void {
    this.#varint(field << 3);
    this.#varint(zigzag(value));
  }

  /** Writes a packed field of varints. The values are integers from 0 to 2^53. */
  packedUints(field: number, values: readonly number[]): void {
    if (values.length === 0) return;
    const start = this.begin(field);
    for (const value of values) this.#varint(value);
    this.end(start);
  }

  /** Writes a packed field of sint32 or sint64. The values are integers from -2^52 to 2^52. */
  packedSints(field: number, values: readonly number[]): void {
    this.packedUints(field, values.map(zigzag));
  }

  /** Writes a string field; omits an empty string. */
  string(field: number, text: string): void {
    if (text !== "") this.presentString(field, text);
  }

  /** Writes a string field even when empty, for elements of repeated fields and members of a oneof. */
  presentString(field: number, text: string): void {
    this.#varint((field << 3) | 2);
    if (text.length <= shortTextCharacters) {
      // At most three bytes a character, so the length takes one byte, which is set afterwards.
      this.#reserve(1 + text.length * 3);
      const lengthAt = this.#length++;
      this.#shortText(text);
      this.#buffer[lengthAt] = this.#length - lengthAt - 1;
      return;
    }
    const bytes = Buffer.byteLength(text, "utf8");
    this.#varint(bytes);
    this.#reserve(bytes);
    this.#length += this.#buffer.write(text, this.#length, "utf8");
  }

  /**
   * Writes a message field with the text `key` as its field 1 and, as its field 2, a message with the text `value` as
   * its field 1, such as a `KeyValue` of OTLP. This is one pass for the short ASCII texts that most of them are.
   *
   * @returns false if it has written nothing, because a text is empty or not ASCII, or the message takes 128 bytes or
   *   more.
   */
  asciiPair(field: number, key: string, value: string): boolean {
    const valueBytes = 2 + value.length;
    const bytes = 2 + key.length + 2 + valueBytes;
    if (key === "" || value === "" || bytes >= 0x80) return false;
    const before = this.#length;
    this.#varint((field << 3) | 2);
    const start = this.#length;
    this.#reserve(1 + bytes);
    const buffer = this.#buffer;
    buffer[start] = bytes;
    buffer[start + 1] = (1 << 3) | 2;
    buffer[start + 2] = key.length;
    const valueAt = start + 3 + key.length;
    buffer[valueAt] = (2 << 3) | 2;
    buffer[valueAt + 1] = valueBytes;
    buffer[valueAt + 2] = (1 << 3) | 2;
    buffer[valueAt + 3] = value.length;
    const isWritten =
      writeAscii(buffer, start + 3, key) === key.length && writeAscii(buffer, valueAt + 4, value) === value.length;
    this.#length = isWritten ? start + 1 + bytes : before;
    return isWritten;
  }

  /** Writes a bytes field, even when empty. */
  bytes(field: number, content: Uint8Array): void {
    this.#varint((field << 3) | 2);
    this.#varint(content.length);
    this.#reserve(content.length);
    this.#buffer.set(content, this.#length);
    this.#length += content.length;
  }

  /** Writes a bytes field from its hexadecimal digits: an even number of them, at most 254. */
  hex(field: number, digits: string): void {
    const bytes = digits.length / 2;
    this.#varint((field << 3) | 2);
    this.#reserve(1 + bytes);
    this.#buffer[this.#length++] = bytes;
    this.#length += this.#buffer.write(digits, this.#length, bytes, "hex");
  }

  /** Writes a double field (fixed 64 bits), even when 0. */
  double(field: number, value: number): void {
    this.#varint((field << 3) | 1);
    this.#reserve(8);
    this.#length = this.#buffer.writeDoubleLE(value, this.#length);
  }

  /** Writes a fixed64 field, even when 0. */
  fixed64(field: number, value: bigint): void {
    this.#varint((field << 3) | 1);
    this.#reserve(8);
    this.#length = this.#buffer.writeBigUInt64LE(value, this.#length);
  }

  /** Writes a fixed64 field from its upper and lower 32 bits, even when 0, without a `bigint`. */
  fixed64Halves(field: number, high: number, low: number): void {
    this.#varint((field << 3) | 1);
    this.#reserve(8);
    this.#uint32(low);
    this.#uint32(high);
  }

  /** Writes a fixed32 field, even when 0. */
  fixed32(field: number, value: number): void {
    this.#varint((field << 3) | 5);
    this.#reserve(4);
    this.#uint32(value);
  }

  /** Writes a packed field of fixed64. The values are integers from 0 to 2^53. */
  packedFixed64(field: number, values: readonly number[]): void {
    this.#beginPacked(field, values);
    for (const value of values) this.#length = this.#buffer.writeBigUInt64LE(BigInt(value), this.#length);
  }

  /** Writes a packed field of double. */
  packedDoubles(field: number, values: readonly number[]): void {
    this.#beginPacked(field, values);
    for (const value of values) this.#length = this.#buffer.writeDoubleLE(value, this.#length);
  }

  /** Writes a boolean field, even when false. */
  boolean(field: number, value: boolean): void {
    this.#varint(field << 3);
    this.#varint(value ? 1 : 0);
  }

  /** Writes the tag and the length of a field whose content of `bytes` bytes the caller adds. */
  lengthOf(field: number, bytes: number): void {
    this.#varint((field << 3) | 2);
    this.#varint(bytes);
  }

  /** Begins a message field. Pass the result to `end` after its content is written. */
  begin(field: number): number {
    this.#varint((field << 3) | 2);
    this.#reserve(1);
    return ++this.#length;
  }

  /** Begins a message with its length before it, of a stream of messages. Pass the result to `end`. */
  beginDelimited(): number {
    this.#reserve(1);
    return ++this.#length;
  }

  /**
   * Ends the message field that began at `start`. One byte was reserved for its length; a longer length moves the
   * content.
   */
  end(start: number): void {
    const bytes = this.#length - start;
    if (bytes < 0x80) {
      this.#buffer[start - 1] = bytes;
      return;
    }
    const lengthBytes = varintBytes(bytes);
    this.#reserve(lengthBytes - 1);
    this.#buffer.copyWithin(start - 1 + lengthBytes, start, this.#length);
    this.#length = start - 1;
    this.#varint(bytes);
    this.#length = start - 1 + lengthBytes + bytes;
  }

  /** Begins a packed field of values with eight bytes each. */
  #beginPacked(field: number, values: readonly number[]): void {
    this.#varint((field << 3) | 2);
    this.#varint(values.length * 8);
    this.#reserve(values.length * 8);
  }

  #uint32(value: number): void {
    const buffer = this.#buffer;
    buffer[this.#length++] = value;
    buffer[this.#length++] = value >>> 8;
    buffer[this.#length++] = value >>> 16;
    buffer[this.#length++] = value >>> 24;
  }

  #shortText(text: string): void {
    const written = writeAscii(this.#buffer, this.#length, text);
    this.#length += written;
    if (written < text.length) this.#length += this.#buffer.write(text.slice(written), this.#length, "utf8");
  }

  #varint(value: number): void {
    this.#reserve(10);
    if (value < 0x80) {
      this.#buffer[this.#length++] = value;
      return;
    }
    let rest = value;
    while (rest >= 0x80) {
      this.#buffer[this.#length++] = (rest % 128) | 0x80;
      rest = Math.floor(rest / 128);
    }
    this.#buffer[this.#length++] = rest;
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
  }
}

/** Writes the characters before the first one that is not ASCII. @returns their number. */
function writeAscii(buffer: Buffer, start: number, text: string): number {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code >= 0x80) return index;
    buffer[start + index] = code;
  }
  return text.length;
}

/** Protobuf's encoding of signed integers: 0, -1, 1, -2 and so on are 0, 1, 2, 3. */
function zigzag(value: number): number {
  return value < 0 ? -2 * value - 1 : 2 * value;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 128)) bytes++;
  return bytes;
}
