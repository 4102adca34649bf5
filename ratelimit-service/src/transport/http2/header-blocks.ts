/**
 * Reads the header blocks of a connection and remembers what ordinary ones said: a client sends the same few blocks over
 * and over, and the same bytes mean the same fields as long as the dynamic table stands still.
 */
import { HpackDecoder } from "./hpack-decoder.ts";
import { faultOfTrailers, parseRequestHead, type RequestHead } from "./request-head.ts";

/** A block that begins a request. */
export type RequestBlock<Head> =
  | { readonly kind: "request"; readonly head: Head; readonly contentLength?: number }
  | { readonly kind: "malformed"; readonly reason: string }
  | { readonly kind: "tooLarge" };

/** The table size that a peer may use unless it is told otherwise (RFC 9113 §6.5.2). */
const tableBytes = 4_096;
/** Longer blocks are rare, so not worth remembering. */
const memoizedBlockBytes = 512;
const memoizedBlocks = 32;

export class HeaderBlocks<Head> {
  readonly #decoder: HpackDecoder;
  readonly #readHead: (head: RequestHead) => Head;
  readonly #known = new Map<string, RequestBlock<Head>>();

  /** `readHead` takes from a well-formed head what the handler needs; it must be pure. */
  constructor(maxListBytes: number, readHead: (head: RequestHead) => Head) {
    this.#decoder = new HpackDecoder(tableBytes, maxListBytes);
    this.#readHead = readHead;
  }

  /** Throws `ConnectionError` on a broken block, as `readTrailers` does. */
  readRequest(buffer: Buffer, start: number, end: number): RequestBlock<Head> {
    if (end - start > memoizedBlockBytes) return this.#decodeRequest(buffer, start, end);
    const bytes = buffer.toString("latin1", start, end);
    const known = this.#known.get(bytes);
    if (known !== undefined) return known;
    const version = this.#decoder.tableVersion;
    const block = this.#decodeRequest(buffer, start, end);
    // A block that changed the table would mean something else the second time.
    const isRepeatable = version === this.#decoder.tableVersion && block.kind === "request";
    if (isRepeatable && this.#known.size < memoizedBlocks) this.#known.set(bytes, block);
    return block;
  }

  /** What is wrong with a block that ends a request; `undefined` for a good one. */
  readTrailers(buffer: Buffer, start: number, end: number): string | undefined {
    const fields = this.#decode(buffer, start, end);
    return fields === undefined ? "the trailers are too large" : faultOfTrailers(fields);
  }

  #decodeRequest(buffer: Buffer, start: number, end: number): RequestBlock<Head> {
    const fields = this.#decode(buffer, start, end);
    if (fields === undefined) return { kind: "tooLarge" };
    const result = parseRequestHead(fields);
    if (!result.ok) {
      return { kind: "malformed", reason: result.problems[0]?.message ?? "" };
    }
    const { contentLength } = result.value;
    const head = this.#readHead(result.value);
    return { kind: "request", head, ...(contentLength === undefined ? {} : { contentLength }) };
  }

  /** Every block goes through here, so that what is remembered is forgotten as soon as it may mean something else. */
  #decode(buffer: Buffer, start: number, end: number): string[] | undefined {
    const version = this.#decoder.tableVersion;
    const fields = this.#decoder.decode(buffer, start, end);
    if (version !== this.#decoder.tableVersion) this.#known.clear();
    return fields;
  }
}
