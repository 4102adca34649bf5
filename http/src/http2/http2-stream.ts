/**
 * One stream of a connection: its flow control in both directions, and its sending half, which client and server share.
 * Subclasses process the received frames.
 */
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";
import { type ErrorCode, maxFramePayloadBytes, maxWindowBytes } from "./frame.ts";
import type { FrameWriter } from "./frame-writer.ts";
import type { HeaderSource } from "./hpack/hpack-encoder.ts";
import type { WindowShare } from "./window-shares.ts";

/** The interface of `Streams` for a single stream. */
export interface StreamHost {
  readonly writer: FrameWriter;
  /** Bytes that may be sent on all streams together. */
  sendWindowBytes: number;
  /** The largest `sendWindowBytes` so far. */
  readonly largestWindowBytes: number;
  /** Bytes that wait for the peer's windows, on all streams. */
  waitingBytes: number;
  /** Received bytes that their receivers have not read, on all streams. */
  heldBytes: number;
  /**
   * Called when the stream has more to send than a window, or the socket, allows. `Http2Stream.sendWaiting` is called
   * later.
   */
  waitForWindow(stream: Http2Stream): void;
  /** Opens the window of the stream for bytes that are not buffered any more. */
  refillStream(stream: Http2Stream): void;
  /**
   * Called when data has been sent. The peer may acknowledge it by WINDOW_UPDATE.
   *
   * @param isLargePart whether it is a whole chunk, or a large part of one.
   */
  sentData(bytes: number, isLargePart: boolean): void;
}

/** Minimum bytes of a part of a chunk for which the peer may send further frames without progress. */
const usefulDataBytes = 256;

/** A stream. Subclasses decide when it may send, and call the methods that send only then. */
export abstract class Http2Stream {
  /** The stream identifier; 0 until the stream is open. */
  id: number;
  /** Bytes that may be sent on this stream. */
  sendWindowBytes = 0;
  /** The part of the connection's window that the stream may use; undefined: all of it. */
  share: WindowShare | undefined;
  /** With a share, bytes that were sent, and for which the peer has not opened the window of the stream again. */
  unreturnedBytes = 0;
  /** Bytes that the peer may still send on this stream. */
  receiveWindowBytes = 0;
  /** Received bytes that their receiver has not read. The peer gets no window for them. */
  heldBytes = 0;
  /** Number of small DATA frames so far. */
  smallFrames = 0;
  /** Whether the peer has sent its last byte. */
  isInputComplete = false;
  /** Body bytes that the peer still has to send by its content-length; undefined without one. */
  remainingBytes: number | undefined;
  /** The first bytes that wait, from `#waitingStart`. Absent while nothing waits, which is the common case. */
  #waiting: Uint8Array | undefined;
  #waitingStart = 0;
  /** The bytes after `#waiting`. */
  #later: ChunkBuffer | undefined;
  /** The end of the stream after the waiting bytes: their last byte (`data`), or trailers. */
  #end: "data" | HeaderSource | undefined;

  constructor(id: number) {
    this.id = id;
  }

  /** Whether bytes wait for a window. */
  get isWaiting(): boolean {
    return this.#waiting !== undefined;
  }

  /** Bytes that wait for a window. */
  get waitingBytes(): number {
    if (this.#waiting === undefined) return 0;
    return this.#waiting.length - this.#waitingStart + (this.#later?.length ?? 0);
  }

  /** Counts received bytes of the body. Returns false if they contradict content-length (§8.1.1). */
  countInput(bytes: number, isLast: boolean): boolean {
    if (this.remainingBytes === undefined) return true;
    this.remainingBytes -= bytes;
    return this.remainingBytes >= 0 && (!isLast || this.remainingBytes === 0);
  }

  /** Counts received bytes that are buffered. The peer gets no window for them. */
  protected holdInput(host: StreamHost, bytes: number): void {
    this.heldBytes += bytes;
    host.heldBytes += bytes;
  }

  /** Ends the count of buffered bytes. `StreamHost.refillStream` then opens the window, unless the stream is closed. */
  protected releaseInput(host: StreamHost): void {
    host.heldBytes -= this.heldBytes;
    this.heldBytes = 0;
  }

  /** The peer opens the window again for bytes that were sent. */
  returnWindow(bytes: number): void {
    if (this.share === undefined) return;
    const returned = Math.min(bytes, this.unreturnedBytes);
    this.unreturnedBytes -= returned;
    this.share.heldBytes -= returned;
  }

  /** Changes the send window. Returns false if it exceeds the maximum of a window. */
  adjustSendWindow(bytes: number): boolean {
    this.sendWindowBytes += bytes;
    return this.sendWindowBytes <= maxWindowBytes;
  }

  /**
   * Sends as much as the windows allow, and the rest when they open.
   *
   * @param bytes may be kept, and must not change until they are sent.
   * @param isLast whether they end the stream.
   */
  protected writeData(host: StreamHost, bytes: Uint8Array, isLast: boolean): void {
    if (this.#waiting !== undefined) {
      if (isLast) this.#end = "data";
      if (bytes.length === 0) return;
      (this.#later ??= new ChunkBuffer()).push(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
      host.waitingBytes += bytes.length;
      return;
    }
    const sent = this.#sendWithinWindows(host, bytes, 0, isLast, bytes.length);
    if (sent === bytes.length) {
      if (isLast) this.onOutputEnd();
      return;
    }
    if (isLast) this.#end = "data";
    this.#waiting = bytes;
    this.#waitingStart = sent;
    host.waitingBytes += bytes.length - sent;
    host.waitForWindow(this);
  }

  /** Ends the stream with trailers, after all data. */
  protected writeTrailers(host: StreamHost, trailers: HeaderSource): void {
    if (this.#waiting !== undefined) {
      this.#end = trailers;
      return;
    }
    host.writer.headers(this.id, trailers, true);
    this.onOutputEnd();
  }

  /**
   * Sends up to `maxBytes` of the waiting bytes. Returns `more` if more could be sent now, `blocked` if a window or the
   * socket is full, and `done` if no bytes wait.
   */
  sendWaiting(host: StreamHost, maxBytes: number): "more" | "blocked" | "done" {
    const waiting = this.#waiting;
    if (waiting === undefined) return "done";
    const start = this.#waitingStart;
    const isLast = this.#later === undefined && this.#end === "data";
    const sent = this.#sendWithinWindows(host, waiting, start, isLast, Math.min(waiting.length, start + maxBytes));
    host.waitingBytes -= sent - start;
    this.#waitingStart = sent;
    if (sent < waiting.length) return sent - start < maxBytes ? "blocked" : "more";
    this.#waiting = this.#later?.take();
    this.#waitingStart = 0;
    this.#later = undefined;
    if (this.#waiting !== undefined) return "more";
    const end = this.#end;
    if (end === "data") this.onOutputEnd();
    else if (end !== undefined) this.writeTrailers(host, end);
    else this.onFlowing();
    return "done";
  }

  /** Drops the waiting bytes, because the stream is closed. */
  protected dropWaiting(host: StreamHost): void {
    host.waitingBytes -= this.waitingBytes;
    this.#waiting = undefined;
    this.#later = undefined;
    this.#end = undefined;
  }

  /** Called when no bytes wait for a window any more, and the stream continues. */
  protected onFlowing(): void {
    // Most senders do not wait.
  }

  /** Called when END_STREAM has been sent. */
  protected abstract onOutputEnd(): void;

  /** Ends the stream with RST_STREAM, for an error of the peer (§5.4.2). */
  abstract fail(code: ErrorCode, reason: string): void;

  /**
   * Sends `bytes` from `start` up to `length` as far as the windows and the socket allow. Returns the position after
   * the sent bytes.
   *
   * @param isLast whether the end of `bytes` is the end of the stream.
   */
  #sendWithinWindows(host: StreamHost, bytes: Uint8Array, start: number, isLast: boolean, length: number): number {
    let position = start;
    if (position === length) {
      // Only END_STREAM is sent, which needs no window.
      if (isLast && length === bytes.length) host.writer.data(this.id, bytes, position, position, true);
      return position;
    }
    const { share } = this;
    let room = host.writer.bodyRoom;
    if (share !== undefined) room = Math.min(room, share.roomIn(host.sendWindowBytes, host.largestWindowBytes));
    while (position < length) {
      const window = Math.min(this.sendWindowBytes, host.sendWindowBytes, room);
      const part = Math.min(length - position, maxFramePayloadBytes, window);
      if (part <= 0) break;
      const end = position + part;
      host.writer.data(this.id, bytes, position, end, isLast && end === bytes.length);
      room -= part;
      this.sendWindowBytes -= part;
      host.sendWindowBytes -= part;
      position = end;
    }
    const sent = position - start;
    if (share !== undefined) {
      this.unreturnedBytes += sent;
      share.heldBytes += sent;
    }
    if (sent > 0) host.sentData(sent, position === length || sent >= usefulDataBytes);
    return position;
  }
}
