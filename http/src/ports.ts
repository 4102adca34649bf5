/**
 * The contracts between the wire and its users, one pair for HTTP/1 and HTTP/2. A server calls `ServerExchangeEvents` for a
 * request that it has received, and offers a `ServerExchange` for the way back. A client sends a `ClientRequest`, calls
 * `ClientExchangeEvents` for the response, and offers a `ClientExchange` to control it.
 */
import type { Duplex } from "node:stream";

/** Names and values in turns. Names are in lower case in HTTP/2, and as received in HTTP/1. */
export type FieldList = readonly string[];

/** Receives a body. Exactly one of `onEnd` and `onAborted` is called, and nothing after it. */
export interface BodyReceiver {
  /** @param bytes a part of the body; never empty. The receiver owns them. */
  onData(bytes: Buffer): void;
  /** @param trailers empty if there are none. */
  onEnd(trailers: FieldList): void;
  /** The rest of the body will not arrive: the peer has left, or has broken the protocol. */
  onAborted(): void;
}

/** A body that is being received. Nothing is delivered before `read`, nor between `pause` and `resume`. */
export interface IncomingBody {
  /** Starts the delivery. Called once. */
  read(receiver: BodyReceiver): void;
  /** Holds the delivery back. The peer then is slowed down by the flow control of its protocol. */
  pause(): void;
  resume(): void;
  readonly isPaused: boolean;
}

/** A connection, or a stream of HTTP/2, after a switch of protocols. */
export interface SwitchedStream extends Duplex {
  setTimeout(ms: number, onTimeout?: () => void): unknown;
}

/**
 * A request of a client and the way back to it. At most one of `respond`, `forward`, `start` and `switchProtocols` is
 * called, and once. After the client has left, all calls are ignored.
 */
export interface ServerExchange {
  /** `1.0`, `1.1` or `2` */
  readonly httpVersion: string;
  /** The body; undefined if there is none. Reading it asks a client that waits for 100 (Continue) to go on. */
  readonly body: IncomingBody | undefined;
  /** Whether the client may still send more of this request, its body or what comes after a switch of protocols. */
  readonly isReceiving: boolean;
  /** Written bytes that the client has not read yet, of this response and the previous ones on the connection. */
  readonly unreadBytes: number;
  /**
   * Sends a complete response in one write. The length is added if the response may have a body.
   *
   * @param fields without framing, which is that of the protocol.
   */
  respond(status: number, fields: readonly string[], body: Buffer | string): void;
  /** As `respond`, with the framing of `start`, so that a response does not depend on the timing of a backend. */
  forward(status: number, fields: readonly string[], body: Buffer): void;
  /** Sends an interim response (1xx, RFC 9110 §15.2), any number of times before the others. */
  inform(status: number, fields: readonly string[]): void;
  /** Sends the head of a response with a body that follows by `write` and `end`. A `content-length` is kept. */
  start(status: number, fields: readonly string[]): void;
  /** @returns false when the client reads too slowly: hold back until `onDrain`. */
  write(bytes: Buffer): boolean;
  /** @param trailers empty for none. */
  end(trailers: FieldList): void;
  /** Accepts the switch to `protocol` that the client requests, and hands over the connection, or the stream. */
  switchProtocols(protocol: string, fields: readonly string[]): SwitchedStream;
  /** Truncates the response so that the client can detect it. Closes a switched connection. */
  reset(): void;
}

/** The events of a `ServerExchange`. */
export interface ServerExchangeEvents {
  onDrain(): void;
  /**
   * The body of the request is malformed (400), or its trailers exceed the bounds (431). A response, unless it has started, is
   * the last of the connection over HTTP/1.
   */
  onBodyRejected(status: 400 | 431, message: string): void;
  /** Called once at the end: the response has been passed to the kernel, or (`!completed`) the client has left. */
  onClose(completed: boolean): void;
}

/** A body to be sent, from its first byte. The sender reads it, and pauses it while the peer reads slowly. */
export interface OutgoingBody extends IncomingBody {
  /** The rest of the body is not needed. Has no effect after the end of the body, or a second time. */
  cancel(): void;
}

/** A request to a server. */
export interface ClientRequest {
  readonly method: string;
  /** Path and query, starting with `/`. */
  readonly path: string;
  /** With `host`, and without the fields of the connection. A `content-length` must be that of the body. */
  readonly fields: FieldList;
  /** A buffer is sent in one write with the head. */
  readonly body: Buffer | OutgoingBody | undefined;
  /** The protocol of a requested switch (RFC 9110 §7.8). Any response other than 101 is a normal one. */
  readonly upgrade: string | undefined;
}

/** Why there is no complete response. */
export interface ClientFailure {
  readonly kind: /** The connection has ended, or the response breaks the protocol. */
    | "reset"
    /** The server has sent nothing, and read nothing, for too long. */
    | "timeout"
    /** The server has certainly not processed the request, which may be sent to another one (RFC 9113 §8.7). */
    | "unprocessed"
    /** The source of the body has ended before the body. */
    | "aborted";
  readonly message: string;
}

/**
 * Receives a response. Methods are called in this order: `onInterimHead` any number of times, `onHead` at most once, `onData`
 * only after it, then exactly one of `onEnd` and `onFailure`, and nothing after that. They must not throw.
 */
export interface ClientExchangeEvents {
  /** An interim response other than 101 (RFC 9110 §15.2). @param fields names as received. */
  onInterimHead(status: number, fields: FieldList): void;
  /** @param fields names as received. */
  onHead(status: number, fields: FieldList): void;
  /** @param bytes never empty. The receiver owns them. */
  onData(bytes: Buffer): void;
  /** @param trailers empty if there are none. */
  onEnd(trailers: FieldList): void;
  onFailure(failure: ClientFailure): void;
  /** Called instead of all others: the server has accepted the requested switch. The receiver resumes and closes `stream`. */
  onSwitched(fields: FieldList, stream: SwitchedStream): void;
}

/** A request in progress. Its methods have no effect after the end. */
export interface ClientExchange {
  /** Holds the response back until `resume`. The server is slowed down by the flow control of the protocol. */
  pause(): void;
  resume(): void;
  /** Ends the exchange, without further events. */
  abort(): void;
}
