/** HTTP/2 towards the client (prior knowledge, RFC 9113 §3.3), over node:http2's stream interface. */
import type { ServerHttp2Stream } from "node:http2";
import { constants } from "node:http2";
import type { Readable } from "node:stream";
import type { Downstream, DownstreamEvents } from "./downstream.ts";
import { peerAddress } from "./peer-address.ts";
import type { RequestHead } from "./request-head.ts";

export class Http2Downstream implements Downstream {
  readonly head: RequestHead;
  readonly httpVersion = "2";
  readonly sourceAddress: string;
  readonly body: Readable | undefined;
  readonly #stream: ServerHttp2Stream;
  #trailers: string[] = [];
  /** Node may close a stream before it calls its writable side finished, so we remember for ourselves. */
  #isEnded = false;

  /** @param endOfStream the head was the whole request. */
  constructor(stream: ServerHttp2Stream, head: RequestHead, endOfStream: boolean) {
    this.head = head;
    this.sourceAddress = peerAddress(stream.session?.socket);
    this.body = endOfStream ? undefined : stream;
    this.#stream = stream;
  }

  listen(events: DownstreamEvents): void {
    const stream = this.#stream;
    stream.on("close", () => events.onClose(this.#isEnded && stream.rstCode === constants.NGHTTP2_NO_ERROR));
    stream.on("drain", () => events.onDrain());
    // A stream that the client resets: "close" follows and tells.
    stream.on("error", ignore);
  }

  respond(status: number, headers: string[], body: Buffer | string): void {
    if (this.#stream.destroyed) return;
    this.#stream.respond([":status", String(status), ...headers], { endStream: body.length === 0 });
    if (body.length > 0) this.#stream.end(body);
    this.#isEnded = true;
  }

  start(status: number, headers: string[]): void {
    if (this.#stream.destroyed) return;
    this.#stream.respond([":status", String(status), ...headers], { waitForTrailers: true });
    this.#stream.once("wantTrailers", () => this.#sendTrailers());
  }

  write(chunk: Buffer): boolean {
    return this.#stream.write(chunk);
  }

  end(trailers: string[]): void {
    this.#trailers = trailers;
    this.#isEnded = true;
    this.#stream.end();
  }

  reset(): void {
    this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }

  #sendTrailers(): void {
    if (this.#trailers.length === 0) this.#stream.close();
    else this.#stream.sendTrailers(grouped(this.#trailers));
  }
}

/** Node takes trailers as an object; fields of one name become a list. */
function grouped(flat: readonly string[]): Record<string, string[]> {
  const fields: Record<string, string[]> = {};
  for (let i = 0; i + 1 < flat.length; i += 2) (fields[flat[i] ?? ""] ??= []).push(flat[i + 1] ?? "");
  return fields;
}

function ignore(): void {
  // Nothing to do: "close" reports it.
}
