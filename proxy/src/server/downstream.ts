/**
 * The client's side of one request, whichever protocol it speaks. The adapters (`http1.ts`, `http2.ts`) know the wire;
 * everything else in the server knows only this.
 */
import type { Readable } from "node:stream";
import type { Connection } from "./connection.ts";
import type { HeadFault, RequestHead } from "./request-head.ts";
import type { TunnelEnd } from "./tunnel.ts";

/** Whoever takes the requests of a bind. */
export interface RequestReceiver {
  /** Takes each request; returns who is told what the client does next. */
  readonly onRequest: (downstream: Downstream) => DownstreamEvents;
  /** Hears of each request whose head could not be accepted; it has been answered. */
  readonly onUnprocessed: (refused: RefusedRequest) => void;
}

/** How long a client may take for the answer to a request that was refused for its head, which is one line. */
export const refusalTimeoutMs = 10_000;

/** What can be said of a request whose head could not be accepted; empty where it could not even be read. */
export interface RefusedRequest {
  readonly connection: Connection;
  readonly httpVersion: string;
  readonly method: string;
  /** As received. */
  readonly target: string;
  /** Flat, as received. */
  readonly rawHeaders: readonly string[];
  readonly fault: HeadFault;
}

export interface Downstream {
  readonly head: RequestHead;
  /** `1.0`, `1.1` or `2` */
  readonly httpVersion: string;
  readonly connection: Connection;
  /** The request's body; absent when it has none. Reading it asks a client that waits for `100 Continue` to go on. */
  readonly body: Readable | undefined;
  /**
   * The protocol that the client asks to go on with, such as `websocket` (RFC 9110 §7.8, RFC 8441): any answer declines
   * it, `switchProtocols` accepts it. Absent in nearly every request; there is no body where it is present.
   */
  readonly upgrade: string | undefined;

  /**
   * Answers in the backend's stead: head and whole body in one write. `headers` is flat and says nothing of framing; where
   * the answer may have a body its length is added.
   */
  respond(status: number, headers: string[], body: Buffer | string): void;
  /**
   * Passes on an answer that is whole, in one write. It is framed as by `start`, `write` and `end`: what the client gets
   * does not depend on how fast the answer came.
   */
  forward(status: number, headers: string[], body: Buffer): void;
  /**
   * Sends the head of an answer whose body follows by `write` and `end`. A `content-length` among `headers` is kept,
   * otherwise the protocol's own framing is used.
   */
  start(status: number, headers: string[]): void;
  /** @returns false when the client reads too slowly: hold back until `onDrain`. */
  write(chunk: Buffer): boolean;
  /** @param trailers flat; empty for none. */
  end(trailers: string[]): void;
  /** Accepts `upgrade`: sends the head that says so, and hands the connection, or the stream, over to the caller. */
  switchProtocols(headers: string[]): TunnelEnd;
  /** Whether the client may still send more of this request, its body or what comes after a switch of protocols. */
  readonly isReceiving: boolean;
  /** What has been written and the client has not taken yet, of this answer or of those before it on the connection. */
  readonly untakenBytes: number;
  /** Breaks the answer off so that the client can tell that it is not whole; a switched connection is closed. */
  reset(): void;
}

/** What the client does meanwhile. */
export interface DownstreamEvents {
  onDrain(): void;
  /** The trailers of the request exceed the limits of a head. */
  onTrailersRefused(): void;
  /** The exchange is over: the answer has been handed to the kernel, or (`!completed`) the client has gone. Once. */
  onClose(completed: boolean): void;
}
