/**
 * One request and its response: the sending half of a stream, with its flow control. The handler is the stream's
 * `StreamReceiver`; input of the peer reaches it through `connection.ts`.
 */
import { ErrorCode, maxFramePayloadBytes } from "../frame.ts";
import type { FrameWriter } from "../frame-writer.ts";

/**
 * The handler's side of a stream. It finishes every stream exactly once, with a response or with `reset`, also after
 * `cancel`. Until then the stream counts as in progress, so a client cannot start unbounded work by cancelling it.
 */
export interface StreamReceiver {
  /**
   * Receives bytes of the body, valid during the call only. `isLast` is set with the last chunk, which may be empty.
   */
  data(chunk: Buffer, isLast: boolean): void;
  /**
   * The peer cancelled the request, or the connection is closed: a response would not be read. No further calls follow.
   */
  cancel(): void;
}

/** The interface of the connection for its streams. */
export interface StreamHost {
  readonly writer: FrameWriter;
  /** Bytes that may be sent on all streams together. */
  sendWindowBytes: number;
  /** Bytes of responses that wait for the peer's windows, on all streams. */
  waitingBytes: number;
  /**
   * Called when the stream has more to send than its window, or that of the connection, allows. The connection calls
   * `resume` when both are open.
   */
  waitForWindow(stream: ServerStream): void;
  /** Called when nothing more will be sent. With `wasReset`, frames of the peer may still arrive. */
  finished(stream: ServerStream, wasReset: boolean): void;
}

/** Bytes that wait for a window, from `start`. */
interface PendingData {
  readonly bytes: Uint8Array;
  start: number;
}

/**
 * A request in progress and its response. Each method that sends has no effect after the end, or after the peer has
 * cancelled.
 */
export class ServerStream {
  readonly id: number;
  readonly #host: StreamHost;
  /** Bytes that may be sent on this stream. */
  #sendWindowBytes: number;
  /** Bytes that the peer may still send on this stream. */
  receiveWindowBytes: number;
  /** Body bytes that are missing by content-length; absent without one. */
  remainingBytes: number | undefined;
  /** Number of small DATA frames so far. */
  smallFrames = 0;
  /** Receives the body; set by the connection once the request is open. */
  receiver: StreamReceiver | undefined;
  /** Whether the peer has sent its last byte. */
  isRequestComplete = false;
  /** Whether the peer has cancelled; nothing is sent any more. */
  isCancelled = false;
  #isFinished = false;
  /** Absent while nothing waits, which is the common case. */
  #waiting: PendingData[] | undefined;
  #waitingTrailers: Uint8Array | undefined;

  constructor(id: number, host: StreamHost, sendWindowBytes: number, receiveWindowBytes: number) {
    this.id = id;
    this.#host = host;
    this.#sendWindowBytes = sendWindowBytes;
    this.receiveWindowBytes = receiveWindowBytes;
  }

  /** Whether the stream's own window allows to send. */
  get hasWindow(): boolean {
    return this.#sendWindowBytes > 0;
  }

  /** Bytes that wait for the peer's window. */
  get waitingBytes(): number {
    return (this.#waiting ?? []).reduce((sum, { bytes, start }) => sum + bytes.length - start, 0);
  }

  /** Bytes of responses that have not been sent yet: of this stream, and of the connection's write buffer. */
  get unsentBytes(): number {
    return this.waitingBytes + this.#host.writer.waitingBytes;
  }

  /**
   * Sends a whole response. The blocks are encoded header blocks; `body` is copied, or must not change until it is
   * sent.
   */
  respond(headers: Uint8Array, body: Uint8Array, trailers: Uint8Array): void {
    this.sendHeaders(headers);
    this.sendData(body);
    this.finish(trailers);
  }

  /** Sends a whole response without a body. */
  respondHeadersOnly(headers: Uint8Array): void {
    if (this.#closeIfCancelled()) {
      return;
    }
    this.#host.writer.headers(this.id, headers, true);
    this.#endResponse();
  }

  sendHeaders(headers: Uint8Array): void {
    if (!this.#isFinished && !this.isCancelled) {
      this.#host.writer.headers(this.id, headers, false);
    }
  }

  /** Sends as much as the windows allow, and the rest when they open. */
  sendData(bytes: Uint8Array): void {
    if (this.#isFinished || this.isCancelled) {
      return;
    }
    const sent = this.#waiting === undefined ? this.#sendWithinWindows(bytes, 0) : 0;
    if (sent < bytes.length) {
      this.#waiting ??= [];
      this.#waiting.push({ bytes, start: sent });
      this.#host.waitingBytes += bytes.length - sent;
      this.#host.waitForWindow(this);
    }
  }

  /** Ends the response, after all data. */
  finish(trailers: Uint8Array): void {
    if (this.#closeIfCancelled()) {
      return;
    }
    if (this.#waiting !== undefined) {
      this.#waitingTrailers = trailers;
      return;
    }
    this.#host.writer.headers(this.id, trailers, true);
    this.#endResponse();
  }

  /** Ends the stream without a response, or without its rest; has no effect on a finished one. */
  reset(code: ErrorCode): void {
    if (this.#isFinished) {
      return;
    }
    if (!this.isCancelled) {
      this.#host.writer.rstStream(this.id, code);
    }
    this.#close(true);
  }

  /** Changes the peer's window by `bytes`; returns `false` when it exceeds the maximum of a window. */
  adjustSendWindow(bytes: number): boolean {
    this.#sendWindowBytes += bytes;
    return this.#sendWindowBytes <= 2 ** 31 - 1;
  }

  /** Sends waiting bytes; returns `true` when none are left. */
  resume(): boolean {
    const waiting = this.#waiting;
    if (waiting === undefined) return true;
    for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
      const { start } = next;
      next.start = this.#sendWithinWindows(next.bytes, start);
      this.#host.waitingBytes -= next.start - start;
      if (next.start < next.bytes.length) {
        return false;
      }
      waiting.shift();
    }
    this.#waiting = undefined;
    if (this.#waitingTrailers !== undefined) {
      this.finish(this.#waitingTrailers);
    }
    return true;
  }

  /** Sends `bytes` from `start` as far as the windows allow and returns where it stopped. */
  #sendWithinWindows(bytes: Uint8Array, start: number): number {
    const host = this.#host;
    let position = start;
    while (position < bytes.length) {
      const length = Math.min(
        bytes.length - position,
        maxFramePayloadBytes,
        this.#sendWindowBytes,
        host.sendWindowBytes,
      );
      if (length <= 0) {
        break;
      }
      host.writer.data(this.id, bytes, position, position + length);
      this.#sendWindowBytes -= length;
      host.sendWindowBytes -= length;
      position += length;
    }
    return position;
  }

  /** Finishes a cancelled stream. Returns whether the stream is finished, so that nothing may be sent. */
  #closeIfCancelled(): boolean {
    if (this.isCancelled) {
      this.#close(true);
    }
    return this.#isFinished;
  }

  /**
   * Closes the stream after a response. A response before the end of the request ends the request too (RFC 9113 §8.1).
   */
  #endResponse(): void {
    if (!this.isRequestComplete) {
      this.#host.writer.rstStream(this.id, ErrorCode.NoError);
    }
    this.#close(!this.isRequestComplete);
  }

  #close(wasReset: boolean): void {
    if (!this.#isFinished) {
      this.#isFinished = true;
      this.#host.waitingBytes -= this.waitingBytes;
      this.#waiting = undefined;
      this.#host.finished(this, wasReset);
    }
  }
}
