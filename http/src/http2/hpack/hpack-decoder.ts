/**
 * Decodes compressed header blocks (HPACK, RFC 7541). A connection has one decoder: its dynamic table follows the
 * peer's, so every block must be decoded, in order, even if its stream is of no interest.
 *
 * Bounds: the table never exceeds `tableBytes`. A block whose fields exceed `maxListBytes` is read to its end, to keep
 * the table in sync, but further fields are not kept, so that a small block of references cannot become large.
 */
import { ConnectionError, ErrorCode } from "../frame.ts";
import { decodeHuffman } from "./huffman.ts";
import { staticTable } from "./static-table.ts";

/** The size of an entry without its text, in the table (RFC 7541 §4.1) and in a header list (RFC 9113 §6.5.2). */
const entryOverheadBytes = 32;

interface Entry {
  readonly name: string;
  readonly value: string;
  readonly bytes: number;
}

/** Of the Huffman code (RFC 7541 §B). */
const shortestCodeBits = 5;

/**
 * Receives decoded Huffman codes before they become text, unless they are longer. All decoders share it, one string at
 * a time.
 */
const scratch = Buffer.allocUnsafeSlow(65_536);

const staticEntries: readonly Entry[] = staticTable.map(([name, value]) => entryOf(name, value));

function entryOf(name: string, value: string): Entry {
  return { name, value, bytes: name.length + value.length + entryOverheadBytes };
}

function compressionError(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.CompressionError, `header block: ${problem}`);
}

/** The HPACK decoder of one connection. */
export class HpackDecoder {
  readonly #tableBytesLimit: number;
  readonly #maxListBytes: number;
  /** The dynamic table, newest entry last: index 62 on the wire is the last element. */
  #entries: Entry[] = [];
  #tableBytes = 0;
  #tableBytesMax: number;
  #insertions = 0;
  /** Whether the fields of the last block exceed `maxListBytes`. */
  isTooLarge = false;

  #source: Buffer = Buffer.alloc(0);
  #position = 0;
  #end = 0;

  constructor(tableBytes: number, maxListBytes: number) {
    this.#tableBytesLimit = tableBytes;
    this.#tableBytesMax = tableBytes;
    this.#maxListBytes = maxListBytes;
  }

  /** Increases with each change of the dynamic table. Equal blocks mean equal fields only while it stays the same. */
  get tableVersion(): number {
    return this.#insertions;
  }

  /**
   * Returns the fields of a whole block as [name, value, name, value, …], with text as latin1 characters. If they
   * exceed `maxListBytes` (`isTooLarge`), only the first ones are returned. Throws `ConnectionError` for an invalid
   * block: the tables of both sides then differ permanently.
   */
  decode(source: Buffer, start: number, end: number): string[] {
    this.#source = source;
    this.#position = start;
    this.#end = end;
    const fields: string[] = [];
    let listBytes = 0;
    while (this.#position < end) {
      const entry = this.#readField(listBytes === 0);
      if (entry !== undefined) {
        listBytes += entry.bytes;
        if (listBytes <= this.#maxListBytes) {
          fields.push(entry.name, entry.value);
        }
      }
    }
    this.isTooLarge = listBytes > this.#maxListBytes;
    return fields;
  }

  /** Reads one representation (RFC 7541 §6), selected by its leading bits; `undefined` for a table size update. */
  #readField(isFirst: boolean): Entry | undefined {
    const byte = this.#source[this.#position] ?? 0;
    if (byte >= 0x80) {
      return this.#entryAt(this.#readInteger(7));
    }
    if (byte >= 0x40) {
      const entry = this.#readLiteral(6);
      this.#insert(entry);
      return entry;
    }
    if (byte >= 0x20) {
      if (!isFirst) {
        throw compressionError("table size update after a field");
      }
      this.#resize(this.#readInteger(5));
      return undefined;
    }
    return this.#readLiteral(4);
  }

  #readLiteral(prefixBits: number): Entry {
    const nameIndex = this.#readInteger(prefixBits);
    const name = nameIndex === 0 ? this.#readString() : this.#entryAt(nameIndex).name;
    return entryOf(name, this.#readString());
  }

  #entryAt(index: number): Entry {
    const entry =
      index <= staticEntries.length
        ? staticEntries[index - 1]
        : this.#entries[this.#entries.length - (index - staticEntries.length)];
    if (entry === undefined) {
      throw compressionError(`no entry ${index} in the tables`);
    }
    return entry;
  }

  /**
   * Reads an integer with a prefix of 1 to 8 bits (§5.1); at most 21 bits beyond it, more than any bound here allows.
   */
  #readInteger(prefixBits: number): number {
    const mask = (1 << prefixBits) - 1;
    let value = this.#readByte() & mask;
    if (value < mask) {
      return value;
    }
    for (let shift = 0; shift <= 14; shift += 7) {
      const byte = this.#readByte();
      value += (byte & 0x7f) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
    throw compressionError("integer too large");
  }

  #readByte(): number {
    if (this.#position >= this.#end) {
      throw compressionError("ends within a field");
    }
    return this.#source[this.#position++] ?? 0;
  }

  #readString(): string {
    const isHuffman = (this.#source[this.#position] ?? 0) >= 0x80;
    const length = this.#readInteger(7);
    const start = this.#position;
    const end = start + length;
    if (end > this.#end) {
      throw compressionError("ends within a string");
    }
    this.#position = end;
    if (!isHuffman) {
      return this.#source.toString("latin1", start, end);
    }
    const longest = Math.ceil((length * 8) / shortestCodeBits);
    const target = longest > scratch.length ? Buffer.allocUnsafe(longest) : scratch;
    const written = decodeHuffman(this.#source, start, end, target);
    if (written < 0) throw compressionError("string with a wrong Huffman code");
    return target.toString("latin1", 0, written);
  }

  #insert(entry: Entry): void {
    this.#insertions++;
    this.#evictDownTo(this.#tableBytesMax - entry.bytes);
    if (entry.bytes <= this.#tableBytesMax) {
      this.#entries.push(entry);
      this.#tableBytes += entry.bytes;
    }
  }

  #resize(bytes: number): void {
    if (bytes > this.#tableBytesLimit) {
      throw compressionError(`table size ${bytes}, at most ${this.#tableBytesLimit} is allowed`);
    }
    this.#insertions++;
    this.#tableBytesMax = bytes;
    this.#evictDownTo(bytes);
  }

  #evictDownTo(bytes: number): void {
    let evicted = 0;
    while (this.#tableBytes > Math.max(bytes, 0)) {
      this.#tableBytes -= this.#entries[evicted++]?.bytes ?? this.#tableBytes;
    }
    if (evicted > 0) {
      this.#entries = this.#entries.slice(evicted);
    }
  }
}
