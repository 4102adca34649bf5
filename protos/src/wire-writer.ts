/** Writes protobuf's wire format (protobuf.dev, "Encoding") into a buffer that grows and is used again. */

const initialBytes = 4_096;
/** A buffer that one large message made larger than this is not kept. */
const keptBytes = 262_144;
/** Longer strings than this are measured before they are written. */
const shortTextCharacters = 42;

export class WireWriter {
  #buffer: Buffer = Buffer.allocUnsafeSlow(initialBytes);
  #length = 0;

  /** What has been written since the last `take`, as a copy that belongs to the caller. */
  take(): Buffer {
    const message = Buffer.allocUnsafe(this.#length);
    this.#buffer.copy(message, 0, 0, this.#length);
    this.#length = 0;
    if (this.#buffer.length > keptBytes) this.#buffer = Buffer.allocUnsafeSlow(initialBytes);
    return message;
  }

  /** Forgets what has been written. */
  reset(): void {
    this.#length = 0;
  }

  /** A varint field; left out when 0, as proto3 does. `value` is an integer from 0 to 2^53. */
  uint(field: number, value: number): void {
    if (value !== 0) {
      this.#varint(field << 3);
      this.#varint(value);
    }
  }

  /** A string field; left out when empty. */
  string(field: number, text: string): void {
    if (text !== "") this.presentString(field, text);
  }

  /** A string field that is there even when empty, as an element of a repeated field or a member of a oneof is. */
  presentString(field: number, text: string): void {
    this.#varint((field << 3) | 2);
    if (text.length <= shortTextCharacters) {
      // At most three bytes a character, so the length takes one byte, known afterwards.
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

  /** A bytes field, there even when empty. */
  bytes(field: number, content: Uint8Array): void {
    this.#varint((field << 3) | 2);
    this.#varint(content.length);
    this.#reserve(content.length);
    this.#buffer.set(content, this.#length);
    this.#length += content.length;
  }

  /** A double field (fixed 64 bits), there even when 0. */
  double(field: number, value: number): void {
    this.#varint((field << 3) | 1);
    this.#reserve(8);
    this.#length = this.#buffer.writeDoubleLE(value, this.#length);
  }

  /** A boolean field, there even when false. */
  boolean(field: number, value: boolean): void {
    this.#varint(field << 3);
    this.#varint(value ? 1 : 0);
  }

  /** Begins a message field; pass what is returned to `end` when its content is written. */
  begin(field: number): number {
    this.#varint((field << 3) | 2);
    this.#reserve(1);
    return ++this.#length;
  }

  /** Ends the message field that began at `start`. One byte was left for its length; a longer one moves the content. */
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

  #shortText(text: string): void {
    const buffer = this.#buffer;
    let at = this.#length;
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (code >= 0x80) {
        at += buffer.write(text.slice(index), at, "utf8");
        break;
      }
      buffer[at++] = code;
    }
    this.#length = at;
  }

  #varint(value: number): void {
    this.#reserve(10);
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

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 128)) bytes++;
  return bytes;
}
