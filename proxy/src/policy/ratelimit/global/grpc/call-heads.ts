/**
 * The header blocks that begin calls. All of a block is the same from call to call but for the time that is left, and
 * even that hardly ever differs, so the last block of each method is kept.
 */
import { encodeHeaderBlock } from "@gatewayproxy/runtime/http2/hpack-encoder";

interface Head {
  readonly timeoutMs: number;
  readonly block: Buffer;
}

export class CallHeads {
  readonly #scheme: "http" | "https";
  readonly #authority: string;
  /** By path; there are as many as methods are called. */
  readonly #heads = new Map<string, Head>();

  constructor(scheme: "http" | "https", authority: string) {
    this.#scheme = scheme;
    this.#authority = authority;
  }

  /** @param timeoutMs whole, told to the service as the time in which an answer is of use; below 1 counts as 1. */
  blockOf(path: string, timeoutMs: number): Buffer {
    const known = this.#heads.get(path);
    if (known?.timeoutMs === timeoutMs) return known.block;
    const block = encodeHeaderBlock([
      ...[":method", "POST", ":scheme", this.#scheme],
      ...[":authority", this.#authority, ":path", path],
      // Eight digits are the most that the protocol allows.
      ...["te", "trailers", "content-type", "application/grpc"],
      ...["grpc-timeout", `${Math.min(Math.max(1, timeoutMs), 99_999_999)}m`],
    ]);
    this.#heads.set(path, { timeoutMs, block });
    return block;
  }
}
