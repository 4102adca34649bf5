/**
 * The header blocks that begin calls. Calls of one method differ only in their timeout, which rarely changes, so the
 * latest block of each method is cached.
 */
import { encodeHeaderBlock } from "@gatewayproxy/http/http2/hpack/hpack-encoder";

interface Head {
  readonly timeoutMs: number;
  readonly block: Buffer;
}

/** The cached header blocks of calls to one endpoint. */
export class CallHeads {
  readonly #scheme: "http" | "https";
  readonly #authority: string;
  /** By path; one per method. */
  readonly #heads = new Map<string, Head>();

  constructor(scheme: "http" | "https", authority: string) {
    this.#scheme = scheme;
    this.#authority = authority;
  }

  /**
   * Returns the header block of a call.
   *
   * @param timeoutMs Whole milliseconds, sent to the service as `grpc-timeout`; at least 1.
   * @param fields of this call only: names in lower case and values, in turn.
   */
  blockOf(path: string, timeoutMs: number, fields?: readonly string[]): Buffer {
    const block = this.#commonBlockOf(path, timeoutMs);
    // No field refers to another one by a dynamic table, so that blocks can be joined.
    return fields === undefined ? block : Buffer.concat([block, encodeHeaderBlock(fields)]);
  }

  #commonBlockOf(path: string, timeoutMs: number): Buffer {
    const known = this.#heads.get(path);
    if (known?.timeoutMs === timeoutMs) return known.block;
    const block = encodeHeaderBlock([
      ...[":method", "POST", ":scheme", this.#scheme],
      ...[":authority", this.#authority, ":path", path],
      // At most eight digits (gRPC over HTTP/2, "Timeout").
      ...["te", "trailers", "content-type", "application/grpc"],
      ...["grpc-timeout", `${Math.min(Math.max(1, timeoutMs), 99_999_999)}m`],
    ]);
    this.#heads.set(path, { timeoutMs, block });
    return block;
  }
}
