/** HTTP/2 towards the client, over node:http2's stream interface. */
import type { ServerHttp2Stream } from "node:http2";
import { constants } from "node:http2";
import type { IncomingBody, SwitchedStream } from "@gatewayproxy/http/ports";
import type { Connection } from "./connection.ts";
import type { Downstream, DownstreamEvents } from "./downstream.ts";
import { fieldOf } from "./fields.ts";
import { isTooLarge, type RequestHead } from "./request-head.ts";
import { StreamBody } from "./stream-body.ts";

/** The properties of one HTTP/2 request beside its stream. */
export interface Http2Options {
  /** The head after normalization. */
  readonly head: RequestHead;
  /** The connection of the stream. */
  readonly connection: Connection;
  /** The head was the whole request. */
  readonly isEnded: boolean;
  /** The protocol of an extended CONNECT (RFC 8441 §4). */
  readonly upgrade: string | undefined;
}

/** A request of HTTP/2, on one stream. */
export class Http2Downstream implements Downstream {
  readonly head: RequestHead;
  readonly httpVersion = "2";
  readonly connection: Connection;
  readonly upgrade: string | undefined;
  readonly #body: StreamBody | undefined;
  readonly #stream: ServerHttp2Stream;
  #bodyTaken = false;
  #trailers: string[] = [];
  /** Node may close a stream before it calls its writable side finished, so we remember for ourselves. */
  #isEnded = false;
  #isSwitched = false;

  constructor(stream: ServerHttp2Stream, { head, connection, isEnded, upgrade }: Http2Options) {
    this.head = head;
    this.connection = connection;
    this.upgrade = upgrade;
    this.#body = isEnded || upgrade !== undefined ? undefined : new StreamBody(stream);
    this.#stream = stream;
  }

  listen(events: DownstreamEvents): void {
    const stream = this.#stream;
    const onDrain = (): void => events.onDrain();
    const onClose = (): void => {
      // Node keeps a closed stream until a full garbage collection, and with it whatever its listeners hold: the whole
      // exchange, which every smaller collection before would copy.
      stream.off("drain", onDrain).off("close", onClose);
      events.onClose(this.#isEnded && stream.rstCode === constants.NGHTTP2_NO_ERROR);
    };
    stream.on("close", onClose).on("drain", onDrain);
    if (this.#body !== undefined) {
      stream.once("trailers", (_trailers, _flags, rawTrailers) => {
        if (isTooLarge(rawTrailers)) events.onBodyRejected(431, "trailers too large");
      });
    }
    // If the client resets the stream, "close" follows.
    stream.on("error", ignore);
  }

  get body(): IncomingBody | undefined {
    if (this.#body !== undefined && !this.#bodyTaken) {
      this.#bodyTaken = true;
      const isAwaited = fieldOf(this.head.rawHeaders, "expect")?.toLowerCase() === "100-continue";
      if (isAwaited && !this.#isGone()) this.#stream.additionalHeaders({ ":status": 100 });
    }
    return this.#body;
  }

  respond(status: number, headers: string[], body: Buffer | string): void {
    if (this.#isGone()) return;
    this.#stream.respond([":status", String(status), ...headers], { endStream: body.length === 0 });
    if (body.length > 0) this.#stream.end(body);
    this.#isEnded = true;
    this.#rejectRest();
  }

  forward(status: number, headers: string[], body: Buffer): void {
    this.respond(status, headers, body);
  }

  inform(status: number, headers: string[]): void {
    if (!this.#isGone()) this.#stream.additionalHeaders({ ":status": status, ...grouped(headers) });
  }

  start(status: number, headers: string[]): void {
    if (this.#isGone()) return;
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

  switchProtocols(headers: string[]): SwitchedStream {
    this.#isEnded = true;
    this.#isSwitched = true;
    // Proves to an HTTP/1.1 client that its key was read; HTTP/2 has neither (RFC 8441 §5).
    const kept = headers.flatMap((text, i) =>
      i % 2 === 0 && text !== "sec-websocket-accept" ? [text, headers[i + 1] ?? ""] : [],
    );
    if (!this.#isGone()) this.#stream.respond([":status", "200", ...kept]);
    return this.#stream;
  }

  get isReceiving(): boolean {
    return this.upgrade !== undefined || this.#hasBodyLeft();
  }

  get unreadBytes(): number {
    return this.#stream.writableLength;
  }

  reset(): void {
    this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR);
    // Its end would not come before the client has read the reset, which one that does not read never does.
    this.#stream.destroy();
  }

  #hasBodyLeft(): boolean {
    return this.#body !== undefined && !this.#stream.readableEnded;
  }

  /** Whether the client has reset the stream. "close" follows, and until then Node throws if anything is sent. */
  #isGone(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  /** Also without any: of none, Node makes the empty frame that ends the stream, where closing it would be a reset. */
  #sendTrailers(): void {
    if (this.#isGone()) return;
    this.#stream.sendTrailers(grouped(this.#trailers));
    this.#rejectRest();
  }

  /**
   * The response is complete, so the rest of the request is not needed any more (RFC 9113 §8.1). An extended
   * CONNECT that was rejected has no end of its own, and would count as an open stream until the client resets it.
   */
  #rejectRest(): void {
    const isRejected = this.upgrade !== undefined && !this.#isSwitched;
    // A reset overtakes what Node is about to send in this turn.
    if (isRejected || this.#hasBodyLeft()) setImmediate(() => this.#stream.close());
  }
}

/** Node takes trailers as an object; fields of one name become a list. */
function grouped(flat: readonly string[]): Record<string, string[]> {
  // A field may be called as a member of every other object is.
  const fields: Record<string, string[]> = Object.create(null) as Record<string, string[]>;
  for (let i = 0; i + 1 < flat.length; i += 2) (fields[flat[i] ?? ""] ??= []).push(flat[i + 1] ?? "");
  return fields;
}

function ignore(): void {
  // Nothing to do: "close" reports it.
}
