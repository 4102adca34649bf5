/**
 * Decodes the header blocks of a connection, and caches the result for short ones. A peer sends the same few blocks
 * again and again, and equal bytes have equal fields as long as the dynamic table does not change.
 */
import { HpackDecoder } from "./hpack/hpack-decoder.ts";

/** The table size that a peer may use unless SETTINGS change it (RFC 9113 §6.5.2). */
const tableBytes = 4_096;
/** The maximum size of a cached block. Longer ones are rare. */
const maxCachedBlockBytes = 512;
const maxCachedBlocks = 32;

/** The header blocks of one connection. */
export class HeaderBlockReader<Interpreted> {
  readonly #decoder: HpackDecoder;
  readonly #interpret: (fields: readonly string[], isTooLarge: boolean) => Interpreted;
  readonly #cache = new Map<string, { readonly interpreted: Interpreted }>();

  /**
   * @param maxListBytes the maximum size of a block's fields; larger lists are not kept.
   * @param interpret computes the result from a block's fields, [name, value, …]; from the first of them if they are
   *   too large. It must be pure.
   */
  constructor(maxListBytes: number, interpret: (fields: readonly string[], isTooLarge: boolean) => Interpreted) {
    this.#decoder = new HpackDecoder(tableBytes, maxListBytes);
    this.#interpret = interpret;
  }

  /** Returns the result for a block, from the cache if possible. Throws `ConnectionError` for an invalid block. */
  read(buffer: Buffer, start: number, end: number): Interpreted {
    if (end - start > maxCachedBlockBytes) return this.#interpretBlock(buffer, start, end);
    const bytes = buffer.toString("latin1", start, end);
    const cached = this.#cache.get(bytes);
    if (cached !== undefined) return cached.interpreted;
    const version = this.#decoder.tableVersion;
    const interpreted = this.#interpretBlock(buffer, start, end);
    // A block that changed the table may have other fields the next time.
    const isRepeatable = version === this.#decoder.tableVersion;
    if (isRepeatable && this.#cache.size < maxCachedBlocks) this.#cache.set(bytes, { interpreted });
    return interpreted;
  }

  /**
   * Returns the fields of a block; undefined if they are too large. Every block passes through here, so that the cache
   * is cleared as soon as a cached block may have other fields. Throws `ConnectionError` for an invalid block.
   */
  readFields(buffer: Buffer, start: number, end: number): readonly string[] | undefined {
    const fields = this.#decode(buffer, start, end);
    return this.#decoder.isTooLarge ? undefined : fields;
  }

  #interpretBlock(buffer: Buffer, start: number, end: number): Interpreted {
    const fields = this.#decode(buffer, start, end);
    return this.#interpret(fields, this.#decoder.isTooLarge);
  }

  #decode(buffer: Buffer, start: number, end: number): readonly string[] {
    const version = this.#decoder.tableVersion;
    const fields = this.#decoder.decode(buffer, start, end);
    if (version !== this.#decoder.tableVersion) this.#cache.clear();
    return fields;
  }
}
