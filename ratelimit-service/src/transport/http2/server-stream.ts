/**
 * One request and its answer on a connection: the sending half with its flow control. Whoever answers is the stream's
 * `StreamReceiver`; what the peer sends reaches it through `connection.ts`.
 */
import { ErrorCode, maxFramePayloadBytes } from "@gatewayproxy/runtime/http2/frame";
import type { FrameWriter } from "@gatewayproxy/runtime/http2/frame-writer";

/**
 * The handler's side of a stream. It finishes every stream exactly once, with an answer or with `reset`, also after
 * `cancel`: until then the stream counts as work in progress, so a client cannot start work without bound by
 * cancelling it.
 */
export interface StreamReceiver {
  /** Bytes of the body, valid during the call only; `isLast` with the last of them, which may be none. */
  data(chunk: Buffer, isLast: boolean): void;
  /** The peer gave the request up, or the connection is gone: nothing will be read. Nothing follows. */
  cancel(): void;
}

/** What a stream needs of its connection. */
export interface StreamHost {
  readonly writer: FrameWriter;
  /** What may be sent on all streams together. */
  sendWindowBytes: number;
  /** Bytes of answers that the peer's windows hold back, on all streams. */
  waitingBytes: number;
  /** The stream has more to send than its window, or that of the connection, allows; `resume` is due when both are open. */
  waitsForWindow(stream: ServerStream): void;
  /** Nothing more will be sent; `wasReset` when by RST_STREAM, so that frames on their way are expected. */
  finished(stream: ServerStream, wasReset: boolean): void;
}

/** Bytes that wait for a window, from `start`. */
interface WaitingData {
  readonly bytes: Uint8Array;
  start: number;
}

export class ServerStream {
  readonly id: number;
  readonly #host: StreamHost;
  /** What may be sent on this stream. */
  #sendWindowBytes: number;
  /** What the peer may still send on this stream. */
  receiveWindowBytes: number;
  /** Body bytes that the request still owes by its content-length; absent when it said none. */
  owedBytes: number | undefined;
  /** DATA frames with few bytes so far. */
  smallFrames = 0;
  /** Takes the body; set by the connection once the request is open. */
  receiver: StreamReceiver | undefined;
  /** The peer has sent its last byte. */
  isRequestComplete = false;
  /** The peer has given up; what is sent goes nowhere. */
  isCancelled = false;
  #isFinished = false;
  /** Absent, as it nearly always is, while nothing has had to wait. */
  #waiting: WaitingData[] | undefined;
  #waitingTrailers: Uint8Array | undefined;

  constructor(id: number, host: StreamHost, sendWindowBytes: number, receiveWindowBytes: number) {
    this.id = id;
    this.#host = host;
    this.#sendWindowBytes = sendWindowBytes;
    this.receiveWindowBytes = receiveWindowBytes;
  }

  /** Whether the stream's own window lets something leave. */
  get hasWindow(): boolean {
    return this.#sendWindowBytes > 0;
  }

  /** Bytes that wait for the peer's window. */
  get waitingBytes(): number {
    return (this.#waiting ?? []).reduce((sum, { bytes, start }) => sum + bytes.length - start, 0);
  }

  /** Bytes of answers that have not left yet: of this stream, and of the connection where they are ready to go. */
  get unsentBytes(): number {
    return this.waitingBytes + this.#host.writer.waitingBytes;
  }

  /** A whole answer. The blocks are encoded header blocks; `body` is copied, or kept unchanged until it is sent. */
  respond(headers: Uint8Array, body: Uint8Array, trailers: Uint8Array): void {
    this.sendHeaders(headers);
    this.sendData(body);
    this.finish(trailers);
  }

  /** A whole answer without a body. */
  respondHeadersOnly(headers: Uint8Array): void {
    if (this.#isSilent()) {
      return;
    }
    this.#host.writer.headers(this.id, headers, true);
    this.#conclude();
  }

  sendHeaders(headers: Uint8Array): void {
    if (!this.#isFinished && !this.isCancelled) {
      this.#host.writer.headers(this.id, headers, false);
    }
  }

  /** Sends now what the windows allow and the rest when they open. */
  sendData(bytes: Uint8Array): void {
    if (this.#isFinished || this.isCancelled) {
      return;
    }
    const sent = this.#waiting === undefined ? this.#sendWithinWindows(bytes, 0) : 0;
    if (sent < bytes.length) {
      this.#waiting ??= [];
      this.#waiting.push({ bytes, start: sent });
      this.#host.waitingBytes += bytes.length - sent;
      this.#host.waitsForWindow(this);
    }
  }

  /** Ends the answer, after all data. */
  finish(trailers: Uint8Array): void {
    if (this.#isSilent()) {
      return;
    }
    if (this.#waiting !== undefined) {
      this.#waitingTrailers = trailers;
      return;
    }
    this.#host.writer.headers(this.id, trailers, true);
    this.#conclude();
  }

  /** Ends the stream without an answer, or without the rest of it; harmless on a finished one. */
  reset(code: ErrorCode): void {
    if (this.#isFinished) {
      return;
    }
    if (!this.isCancelled) {
      this.#host.writer.rstStream(this.id, code);
    }
    this.#close(true);
  }

  /** The peer's window grew or shrank by `bytes`; `false` when it grew beyond what a window can be. */
  adjustSendWindow(bytes: number): boolean {
    this.#sendWindowBytes += bytes;
    return this.#sendWindowBytes <= 2 ** 31 - 1;
  }

  /** Sends on what waits; `true` when nothing does any more. */
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
    let at = start;
    while (at < bytes.length) {
      const length = Math.min(bytes.length - at, maxFramePayloadBytes, this.#sendWindowBytes, host.sendWindowBytes);
      if (length <= 0) {
        break;
      }
      host.writer.data(this.id, bytes, at, at + length);
      this.#sendWindowBytes -= length;
      host.sendWindowBytes -= length;
      at += length;
    }
    return at;
  }

  /** Whether an answer has nobody to go to; the stream is finished then. */
  #isSilent(): boolean {
    if (this.isCancelled) {
      this.#close(true);
    }
    return this.#isFinished;
  }

  /** The answer is out. An answer before the end of the request ends the request too (RFC 9113 §8.1). */
  #conclude(): void {
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
