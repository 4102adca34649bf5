/** The first bytes of a connection: a client of HTTP/2 says the preface (RFC 9113 §3.4), anything else is somebody lost. */
import { clientPreface } from "@gatewayproxy/runtime/http2/frame";

/** `rest` is what follows the preface; `undefined` means that more bytes are needed. */
export type GreetingOutcome =
  | { readonly kind: "incomplete" }
  | { readonly kind: "greeted"; readonly rest: Buffer }
  | { readonly kind: "stranger"; readonly answer: string };

const plainHttpText = "this port speaks gRPC (HTTP/2 with prior knowledge)\n";
const plainHttpAnswer = `HTTP/1.1 505 HTTP Version Not Supported\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: ${plainHttpText.length}\r\n\r\n${plainHttpText}`;

/** Collects the preface over chunks of any size. */
export class Greeting {
  #seen: Buffer = Buffer.alloc(0);

  /** Takes the next bytes. A stranger that seems to speak HTTP/1 has an answer for it, others have none. */
  read(chunk: Buffer): GreetingOutcome {
    const seen = this.#seen.length === 0 ? chunk : Buffer.concat([this.#seen, chunk]);
    const length = Math.min(seen.length, clientPreface.length);
    if (seen.compare(clientPreface, 0, length, 0, length) !== 0) {
      return {
        kind: "stranger",
        answer: /^(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH) /.test(seen.toString("latin1", 0, 8))
          ? plainHttpAnswer
          : "",
      };
    }
    if (length < clientPreface.length) {
      this.#seen = seen;
      return { kind: "incomplete" };
    }
    return { kind: "greeted", rest: seen.subarray(length) };
  }
}
