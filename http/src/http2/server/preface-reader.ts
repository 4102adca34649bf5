/**
 * Reads the first bytes of a connection. An HTTP/2 client sends the preface (RFC 9113 §3.4). Any other client has
 * connected to the wrong port.
 */
import { clientPreface } from "../frame.ts";

/** `incomplete`: more bytes are needed. `complete`: `rest` follows the preface. `mismatch`: not an HTTP/2 client. */
export type PrefaceResult =
  | { readonly kind: "incomplete" }
  | { readonly kind: "complete"; readonly rest: Buffer }
  | { readonly kind: "mismatch"; readonly response: string };

/** The response to an HTTP/1 client at the port of a gRPC server. */
export const grpcOnly = "this port speaks gRPC (HTTP/2 with prior knowledge)";

function http1Response(text: string): string {
  const fields = `connection: close\r\ncontent-type: text/plain\r\ncontent-length: ${text.length + 1}`;
  return `HTTP/1.1 505 HTTP Version Not Supported\r\n${fields}\r\n\r\n${text}\n`;
}

/** Collects the preface from chunks of any size. */
export class PrefaceReader {
  readonly #text: string;
  #received: Buffer = Buffer.alloc(0);

  /** @param text the response to an HTTP/1 client; it states what is expected. */
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
