/**
 * The contracts between the protocol implementations and their users. They are the same for HTTP/1 and HTTP/2. A server
 * calls `ServerExchangeEvents` for a request that it has received, and offers a `ServerExchange` to respond. A client
 * sends a `ClientRequest`, calls `ClientExchangeEvents` for the response, and offers a `ClientExchange` to control it.
 */
import type { Duplex } from "node:stream";

/** Fields: names and values alternate. Names are in lower case in HTTP/2, and as received in HTTP/1. */
export type FieldList = readonly string[];

/** Receives a body. Exactly one of `onEnd` and `onAborted` is called, and nothing after it. */
export interface BodyReceiver {
  /**
   * @param bytes a part of the body; never empty. They do not change.
   * @param isExclusive whether the memory of `bytes` has no other user, so that the receiver may release it. Absent:
   *   no.
   */
  onData(bytes: Buffer, isExclusive?: boolean): void;
  /** @param trailers empty if there are none. */
  onEnd(trailers: FieldList): void;
  /** Called when the rest of the body will not arrive: the peer has disconnected, or has violated the protocol. */
  onAborted(): void;
}

/** A body that is being received. Nothing is delivered before `read`, nor between `pause` and `resume`. */
export interface IncomingBody {
  /** Starts the delivery. Called once. */
  read(receiver: BodyReceiver): void;
  /** Pauses the delivery. The flow control of the protocol then slows the peer down. */
  pause(): void;
  resume(): void;
  readonly isPaused: boolean;
}

/** A connection, or a stream of HTTP/2, after a switch of protocols. */
export interface SwitchedStream extends Duplex {
  setTimeout(ms: number, onTimeout?: () => void): unknown;
}

/**
 * A request of a client, and the methods to respond to it. At most one of `respond`, `forward`, `start` and
 * `switchProtocols` may be called, and only once. After the client has disconnected, calls have no effect.
 */
export interface ServerExchange {
  /** `1.0`, `1.1` or `2` */
  readonly httpVersion: string;
  /** The body; undefined if there is none. Reading it sends 100 (Continue) to a client that waits for it. */
  readonly body: IncomingBody | undefined;
  /** Whether the client may still send bytes of this request: of its body, or after a switch of protocols. */
  readonly isReceiving: boolean;
  /** Written bytes that the client has not read yet, of this response and the previous ones on the connection. */
  readonly unreadBytes: number;
  /** Written bytes of this response that wait in memory. */
  readonly waitingBytes: number;
  /**
   * Sends a complete response in one write. `content-length` is added if the response may have a body.
   *
   * @param fields without those of the framing, which the protocol adds.
   */
  respond(status: number, fields: readonly string[], body: Buffer | string): void;
  /** As `respond`, with the framing of `start`, so that a response does not depend on the timing of a backend. */
  forward(status: number, fields: readonly string[], body: Buffer): void;
  /** Sends an interim response (1xx, RFC 9110 §15.2). It may be called several times before the final response. */
  inform(status: number, fields: readonly string[]): void;
  /** Sends the head of a response whose body follows by `write` and `end`. A `content-length` is kept. */
  start(status: number, fields: readonly string[]): void;
  /**
   * Sends bytes of the body.
   *
   * @param isExclusive whether the memory of `bytes` has no other user. It is then released when they have been sent.
   *   Absent: no.
   * @returns false if the client reads too slowly: the caller waits for `onDrain`.
   */
  write(bytes: Buffer, isExclusive?: boolean): boolean;
  /** Ends the body. @param trailers empty for none. */
  end(trailers: FieldList): void;
  /**
   * Accepts the switch to `protocol` that the client requests. Returns the connection or the stream as a byte stream.
   */
  switchProtocols(protocol: string, fields: readonly string[]): SwitchedStream;
  /** Truncates the response so that the client can detect it. Closes a switched connection. */
  reset(): void;
}

/** The events of a `ServerExchange`. */
export interface ServerExchangeEvents {
  /** Called when the client can take more bytes, after `ServerExchange.write` has returned false. */
  onDrain(): void;
  /**
   * Called when the body of the request is malformed (400), or its trailers exceed the bounds (431). Over HTTP/1, a
   * response that starts later is the last of the connection.
   */
  onBodyRejected(status: 400 | 431, message: string): void;
  /**
   * Called once at the end. `completed`: the response was passed to the kernel; otherwise the client has disconnected.
   */
  onClose(completed: boolean): void;
}

/** A body to send, from its first byte. The sender reads it, and pauses it while the peer reads slowly. */
export interface OutgoingBody extends IncomingBody {
  /** Cancels the rest of the body. Has no effect after the end of the body, or when called again. */
  cancel(): void;
}

/** A request to a server. */
export interface ClientRequest {
  readonly method: string;
  /** Path and query, starting with `/`. */
  readonly path: string;
  /**
   * The fields, with `host`. The fields of the connection are not sent. A `content-length` must be that of the body.
   */
  readonly fields: FieldList;
  /** A buffer is sent in one write with the head. */
  readonly body: Buffer | OutgoingBody | undefined;
  /** The protocol of a requested switch (RFC 9110 §7.8). Any response other than 101 is a normal one. */
  readonly upgrade: string | undefined;
  /** Whose request it is: clients share the window of an HTTP/2 connection. Absent for the gateway itself. */
  readonly client?: string;
}

/** Why there is no complete response. */
export interface ClientFailure {
  readonly kind: /** The connection has ended, or the response violates the protocol. */
    | "reset"
    /** The server has neither sent nor read any bytes for the timeout. */
    | "timeout"
    /** The server has certainly not processed the request, so it may be sent to another server (RFC 9113 §8.7). */
    | "unprocessed"
    /** The source of the body has ended before the body. */
    | "aborted";
  readonly message: string;
  /**
   * The server has rejected the request since it has too much to do for the connection. A server of Node rejects all on
   * a connection on which 10 MB of responses wait.
   */
  readonly isExhausted?: boolean;
  /** The server has rejected the stream (`unprocessed`), as it does where too many are open. Its connection goes on. */
  readonly isStreamRejected?: boolean;
  /** The server has rejected what a client has sent: by a reset (RFC 9113 §7), or by the end of the connection. */
  readonly isRejected?: boolean;
  /** Whether the request was not sent completely, where the server has ended the connection by an error. */
  readonly isUpload?: boolean;
}

/**
 * Receives a response. Methods are called in this order: `onInterimHead` any number of times, `onHead` at most once,
 * `onData` only after it, then exactly one of `onEnd` and `onFailure`, and nothing after that. They must not throw.
 */
export interface ClientExchangeEvents {
  /** Receives an interim response other than 101 (RFC 9110 §15.2). @param fields names as received. */
  onInterimHead(status: number, fields: FieldList): void;
  /** Receives the final head. @param fields names as received. */
  onHead(status: number, fields: FieldList): void;
  /** As `BodyReceiver.onData`. */
  onData(bytes: Buffer, isExclusive?: boolean): void;
  /** @param trailers empty if there are none. */
  onEnd(trailers: FieldList): void;
  onFailure(failure: ClientFailure): void;
  /**
   * Called instead of `onHead` and the events after it, when the server has accepted the requested switch of protocols.
   * The receiver resumes and closes `stream`.
   */
  onSwitched(fields: FieldList, stream: SwitchedStream): void;
}

/** A request in progress. Its methods have no effect after the end. */
export interface ClientExchange {
  /** Bytes of the response that were received, and wait until `resume`. */
  readonly bufferedBytes: number;
  /** Pauses the response until `resume`. The flow control of the protocol then slows the server down. */
  pause(): void;
  resume(): void;
  /** Ends the exchange, without further events. */
  abort(): void;
}
