/**
 * Reads the header blocks of a connection and remembers what ordinary ones said: a peer sends the same few blocks over
 * and over, and the same bytes mean the same fields as long as the dynamic table stands still.
 */
import { HpackDecoder } from "./hpack-decoder.ts";

/** The table size that a peer may use unless it is told otherwise (RFC 9113 §6.5.2). */
const tableBytes = 4_096;
/** Longer blocks are rare, so not worth remembering. */
const memoizedBlockBytes = 512;
const memoizedBlocks = 32;

export class HeaderBlocks<Meaning> {
  readonly #decoder: HpackDecoder;
  readonly #interpret: (fields: readonly string[] | undefined) => Meaning;
  readonly #known = new Map<string, { readonly meaning: Meaning }>();

  /**
   * @param maxListBytes fields that come to more are not kept.
   * @param interpret what a block's fields, [name, value, …], mean, undefined for too many; it must be pure.
   */
  constructor(maxListBytes: number, interpret: (fields: readonly string[] | undefined) => Meaning) {
    this.#decoder = new HpackDecoder(tableBytes, maxListBytes);
    this.#interpret = interpret;
  }

  /** What the block means; interpreted once while its bytes mean the same. Throws `ConnectionError` on a broken block. */
  read(buffer: Buffer, start: number, end: number): Meaning {
    if (end - start > memoizedBlockBytes) return this.#interpret(this.readFields(buffer, start, end));
    const bytes = buffer.toString("latin1", start, end);
    const known = this.#known.get(bytes);
    if (known !== undefined) return known.meaning;
    const version = this.#decoder.tableVersion;
    const meaning = this.#interpret(this.readFields(buffer, start, end));
    // A block that changed the table would mean something else the second time.
    const isRepeatable = version === this.#decoder.tableVersion;
    if (isRepeatable && this.#known.size < memoizedBlocks) this.#known.set(bytes, { meaning });
    return meaning;
  }

  /**
   * The fields of a block as they are; undefined for too many. Every block goes through here, so that what is remembered
   * is forgotten as soon as it may mean something else. Throws `ConnectionError` on a broken block.
   */
  readFields(buffer: Buffer, start: number, end: number): readonly string[] | undefined {
    const version = this.#decoder.tableVersion;
    const fields = this.#decoder.decode(buffer, start, end);
    if (version !== this.#decoder.tableVersion) this.#known.clear();
    return fields;
  }
}
