/**
 * Decodes the header blocks of a connection and caches what short ones mean: a peer sends the same few blocks again and
 * again, and the same bytes mean the same fields as long as the dynamic table does not change.
 */
import { HpackDecoder } from "./hpack-decoder.ts";

/** The table size that a peer may use unless SETTINGS change it (RFC 9113 §6.5.2). */
const tableBytes = 4_096;
/** The maximum size of a cached block. Longer ones are rare. */
const memoizedBlockBytes = 512;
const memoizedBlocks = 32;

/** The header blocks of one connection. */
export class HeaderBlockReader<Meaning> {
  readonly #decoder: HpackDecoder;
  readonly #interpret: (fields: readonly string[] | undefined) => Meaning;
  readonly #known = new Map<string, { readonly meaning: Meaning }>();

  /**
   * @param maxListBytes the maximum size of a block's fields; larger lists are not kept.
   * @param interpret returns what a block's fields, [name, value, …], mean; undefined fields were too large. It must be pure.
   */
  constructor(maxListBytes: number, interpret: (fields: readonly string[] | undefined) => Meaning) {
    this.#decoder = new HpackDecoder(tableBytes, maxListBytes);
    this.#interpret = interpret;
  }

  /** Returns what the block means, from the cache where possible. Throws `ConnectionError` for an invalid block. */
  read(buffer: Buffer, start: number, end: number): Meaning {
    if (end - start > memoizedBlockBytes) return this.#interpret(this.readFields(buffer, start, end));
    const bytes = buffer.toString("latin1", start, end);
    const known = this.#known.get(bytes);
    if (known !== undefined) return known.meaning;
    const version = this.#decoder.tableVersion;
    const meaning = this.#interpret(this.readFields(buffer, start, end));
    // A block that changed the table may mean something else the next time.
    const isRepeatable = version === this.#decoder.tableVersion;
    if (isRepeatable && this.#known.size < memoizedBlocks) this.#known.set(bytes, { meaning });
    return meaning;
  }

  /**
   * Returns the fields of a block; undefined if they are too large. Every block passes through here, so that the cache is
   * cleared as soon as a cached block may mean something else. Throws `ConnectionError` for an invalid block.
   */
  readFields(buffer: Buffer, start: number, end: number): readonly string[] | undefined {
    const version = this.#decoder.tableVersion;
    const fields = this.#decoder.decode(buffer, start, end);
    if (version !== this.#decoder.tableVersion) this.#known.clear();
    return fields;
  }
}
