/**
 * Reads the first bytes of a connection: an HTTP/2 client sends the preface (RFC 9113 §3.4); any other client is at the
 * wrong port.
 */
import { clientPreface } from "../frame.ts";

/** `incomplete`: more bytes are needed. `complete`: `rest` follows the preface. `mismatch`: not an HTTP/2 client. */
export type PrefaceResult =
  | { readonly kind: "incomplete" }
  | { readonly kind: "complete"; readonly rest: Buffer }
  | { readonly kind: "mismatch"; readonly response: string };

/** The text for a client of HTTP/1 at the port of a gRPC server. */
export const grpcOnly = "this port speaks gRPC (HTTP/2 with prior knowledge)";

function http1Response(text: string): string {
  const fields = `connection: close\r\ncontent-type: text/plain\r\ncontent-length: ${text.length + 1}`;
  return `HTTP/1.1 505 HTTP Version Not Supported\r\n${fields}\r\n\r\n${text}\n`;
}

/** Collects the preface from chunks of any size. */
export class PrefaceReader {
  readonly #text: string;
  #received: Buffer = Buffer.alloc(0);

  /** @param text says what is expected, for clients of HTTP/1. */
  constructor(text: string) {
    this.#text = text;
  }

  /** Reads the next bytes. For a client that seems to use HTTP/1 the result has a response, for others an empty one. */
  read(chunk: Buffer): PrefaceResult {
    const received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const length = Math.min(received.length, clientPreface.length);
    if (received.compare(clientPreface, 0, length, 0, length) !== 0) {
      return {
        kind: "mismatch",
        response: /^(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH) /.test(received.toString("latin1", 0, 8))
          ? http1Response(this.#text)
          : "",
      };
    }
    if (length < clientPreface.length) {
      this.#received = received;
      return { kind: "incomplete" };
    }
    return { kind: "complete", rest: received.subarray(length) };
  }
}
