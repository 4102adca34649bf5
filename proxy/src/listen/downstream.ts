/**
 * The client's side of one request, whichever protocol it speaks. `client-request.ts` knows the wire; everything else in the
 * server knows only this.
 */
import type { IncomingBody, ServerExchangeEvents, SwitchedStream } from "@gatewayproxy/http/ports";
import type { Connection } from "./connection.ts";
import type { HeadFault, RequestHead } from "./request-head.ts";

/** Receives the requests of a bind. */
export interface RequestReceiver {
  /** Called for each request. Returns the receiver of its events. */
  readonly onRequest: (downstream: Downstream) => DownstreamEvents;
  /** Called for each request with an invalid head, after its response. */
  readonly onRejected: (request: RejectedRequest) => void;
}

/** What can be said of a request whose head could not be accepted; empty where it could not even be read. */
export interface RejectedRequest {
  readonly connection: Connection;
  readonly httpVersion: string;
  readonly method: string;
  /** As received. */
  readonly target: string;
  /** Flat, as received. */
  readonly rawHeaders: readonly string[];
  readonly fault: HeadFault;
}

/**
 * A request of a client and the way back to it. At most one of `respond`, `forward`, `start` and `switchProtocols` is
 * called, and once.
 */
export interface Downstream {
  /** The head after normalization by the rules of requests. */
  readonly head: RequestHead;
  /** `1.0`, `1.1` or `2` */
  readonly httpVersion: string;
  /** The connection of the request; several requests share it. */
  readonly connection: Connection;
  /** The request's body; absent when it has none. Reading it asks a client that waits for `100 Continue` to go on. */
  readonly body: IncomingBody | undefined;
  /**
   * The protocol to which the client requests a switch, such as `websocket` (RFC 9110 §7.8, RFC 8441): any response rejects
   * it, `switchProtocols` accepts it. Absent in nearly every request; there is no body where it is present.
   */
  readonly upgrade: string | undefined;

  /**
   * Sends a local reply: head and complete body in one write. `headers` is flat, without framing. The length is added if the
   * response may have a body.
   */
  respond(status: number, headers: string[], body: Buffer | string): void;
  /**
   * Forwards a complete response in one write. It has the same framing as with `start`, `write` and `end`, so it does not
   * depend on the timing of the backend.
   */
  forward(status: number, headers: string[], body: Buffer): void;
  /** Sends an interim response (1xx, RFC 9110 §15.2). Called any number of times before the others. */
  inform(status: number, headers: string[]): void;
  /**
   * Sends the head of a response with a body that follows by `write` and `end`. A `content-length` among `headers` is kept,
   * otherwise the protocol's own framing is used.
   */
  start(status: number, headers: string[]): void;
  /** @returns false when the client reads too slowly: hold back until `onDrain`. */
  write(chunk: Buffer): boolean;
  /** @param trailers flat; empty for none. */
  end(trailers: string[]): void;
  /** Accepts `upgrade`: sends the head that says so, and hands the connection, or the stream, over to the caller. */
  switchProtocols(headers: string[]): SwitchedStream;
  /** Whether the client may still send more of this request, its body or what comes after a switch of protocols. */
  readonly isReceiving: boolean;
  /** Written bytes that the client has not read yet, of this response and the previous ones on the connection. */
  readonly unreadBytes: number;
  /** Truncates the response so that the client can detect it. Closes a switched connection. */
  reset(): void;
}

/** What the client does meanwhile. */
export type DownstreamEvents = ServerExchangeEvents;
