/**
 * One request and its response. The handler is the stream's `StreamReceiver`; input of the peer reaches it through
 * `request-streams.ts`.
 */
import type { FieldList } from "../../ports.ts";
import { ErrorCode } from "../frame.ts";
import type { HeaderSource } from "../hpack/hpack-encoder.ts";
import { Http2Stream, type StreamHost } from "../http2-stream.ts";

/**
 * The handler's side of a stream. It finishes every stream exactly once, with a response or with `reset`, also after
 * `cancel`. Until then the stream counts as in progress, so a client cannot start unbounded work by cancelling it.
 */
export interface StreamReceiver {
  /**
   * Receives bytes of the body, valid during the call only. `isLast` is set with the last chunk, which may be empty.
   *
   * @param trailers names and values alternate; empty unless `isLast`.
   */
  data(chunk: Buffer, isLast: boolean, trailers: FieldList): void;
  /** Called when no bytes wait for the windows of the client any more, and the response continues. */
  flowing?(): void;
  /**
   * Called when the whole response has been passed to the kernel. Either this or `cancel` is called, unless the stream
   * was reset.
   */
  written?(): void;
  /**
   * Called when the trailers exceed the bounds of a header list. They end the request, and no `data` follows. Absent:
   * the stream is reset.
   */
  trailersTooLarge?(): void;
  /**
   * Called when the peer cancels the request or the connection is closed, so that a response would not be read. No
   * further calls follow.
   */
  cancel(): void;
}

/** The interface of `RequestStreams` for a single stream. */
export interface RequestHost extends StreamHost {
  /** Called when the stream sends no more frames. With `wasReset`, frames of the peer may still arrive. */
  finished(stream: ServerStream, wasReset: boolean): void;
  /**
   * Called when the last frame of the response is written. `StreamReceiver.written` is called when it has been passed
   * to the kernel.
   */
  ended(stream: ServerStream): void;
  /** Resets the stream after an error of the peer. */
  failed(stream: ServerStream, code: ErrorCode): void;
}

/**
 * A request in progress and its response. Each method that sends has no effect after the end, or after the peer has
 * cancelled.
 */
export class ServerStream extends Http2Stream {
  readonly #host: RequestHost;
  /** Receives the body; set by the connection once the request is open. */
  receiver: StreamReceiver | undefined;
  /** Whether the peer has cancelled. Then no more frames are sent. */
  isCancelled = false;
  /** Whether the client may continue after the end of the response (RFC 8441 §5). */
  isTunnel = false;
  #hasOutputEnded = false;
  #isFinished = false;

  constructor(id: number, host: RequestHost) {
    super(id);
    this.#host = host;
  }

  /**
   * Bytes that the client has not read: those of this stream that wait, and those in the write buffer of the
   * connection.
   */
  get unsentBytes(): number {
    return this.waitingBytes + this.#host.writer.waitingBytes;
  }

  /** Whether the response has ended, with all of its bytes in the write buffer, or the peer has cancelled. */
  get isDone(): boolean {
    return this.#isFinished || this.isCancelled;
  }

  /** Whether the windows and the socket permit this number of bytes now. */
  canSend(bytes: number): boolean {
    return Math.min(this.sendWindowBytes, this.#host.sendWindowBytes, this.#host.writer.bodyRoom) >= bytes;
  }

  /** Counts received bytes that are buffered. The client gets no window for them until `release`. */
  hold(bytes: number): void {
    this.holdInput(this.#host, bytes);
  }

  /** Ends the count of buffered bytes, and opens the window of the stream for them. */
  release(): void {
    this.releaseInput(this.#host);
    if (!this.#isFinished) this.#host.refillStream(this);
  }

  /**
   * Sends a whole response. `body` may be kept, and must not change until it is sent.
   */
  respond(headers: HeaderSource, body: Uint8Array, trailers: HeaderSource): void {
    this.sendHeaders(headers);
    this.sendData(body);
    this.finish(trailers);
  }

  /** Sends a whole response without a body. */
  respondHeadersOnly(headers: HeaderSource): void {
    if (this.#closeIfCancelled()) return;
    this.#host.writer.headers(this.id, headers, true);
    this.onOutputEnd();
  }

  /** Sends an interim head, or a head with a body. */
  sendHeaders(headers: HeaderSource): void {
    if (!this.isDone) this.#host.writer.headers(this.id, headers, false);
  }

  /** Sends as much as the windows allow, and the rest when they open. `isLast` ends the response. */
  sendData(bytes: Uint8Array, isLast = false): void {
    if (isLast && this.#closeIfCancelled()) return;
    if (!this.isDone) this.writeData(this.#host, bytes, isLast);
  }

  /** Ends the response with trailers, after all data. */
  finish(trailers: HeaderSource): void {
    if (!this.#closeIfCancelled()) this.writeTrailers(this.#host, trailers);
  }

  /** Ends the stream without a response, or without its rest; has no effect on a finished one. */
  reset(code: ErrorCode): void {
    if (this.#isFinished) return;
    if (!this.isCancelled) this.#host.writer.rstStream(this.id, code);
    this.#close(true);
  }

  fail(code: ErrorCode): void {
    this.#host.failed(this, code);
  }

  /** Called by the connection when the peer has cancelled. */
  cancel(): void {
    this.isCancelled = true;
    this.dropWaiting(this.#host);
    this.receiver?.cancel();
  }

  /** Finishes a cancelled stream. Returns whether the stream is finished, so that nothing may be sent. */
  #closeIfCancelled(): boolean {
    if (this.isCancelled) this.#close(true);
    return this.#isFinished;
  }

  /**
   * Closes the stream after a response. A response before the end of the request ends the request too (RFC 9113 §8.1).
   */
  protected onOutputEnd(): void {
    this.#host.ended(this);
    this.#hasOutputEnded = true;
    if (this.isTunnel && !this.isInputComplete) return;
    if (!this.isInputComplete) this.#host.writer.rstStream(this.id, ErrorCode.NoError);
    this.#close(!this.isInputComplete);
  }

  /** Called by the connection when the peer has sent its last byte. */
  onInputEnd(): void {
    if (this.#hasOutputEnded) this.#close(false);
  }

  protected override onFlowing(): void {
    this.receiver?.flowing?.();
  }

  #close(wasReset: boolean): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.dropWaiting(this.#host);
    this.release();
    this.#host.finished(this, wasReset);
  }
}
