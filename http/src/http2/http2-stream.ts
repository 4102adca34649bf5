/**
 * One stream of a connection: its flow control in both directions, and its sending half, which both roles share. What a
 * stream receives is processed by its role.
 */
import { type ErrorCode, maxFramePayloadBytes, maxWindowBytes } from "./frame.ts";
import type { FrameWriter } from "./frame-writer.ts";
import type { HeaderSource } from "./hpack/hpack-encoder.ts";

/** The interface of a connection's streams for one of them. */
export interface StreamHost {
  readonly writer: FrameWriter;
  /** Bytes that may be sent on all streams together. */
  sendWindowBytes: number;
  /** Bytes that wait for the peer's windows, on all streams. */
  waitingBytes: number;
  /** Called when the stream has more to send than a window allows. `Http2Stream.resume` is called when both are open. */
  waitForWindow(stream: Http2Stream): void;
  /** Called when a whole chunk, or a large part of one, has been sent: the peer may acknowledge it by WINDOW_UPDATE. */
  sentData(): void;
}

/** Bytes that wait for a window, from `start`. */
interface PendingData {
  readonly bytes: Uint8Array;
  start: number;
}

/** A smaller part of a chunk that a window let through earns the peer no frames without progress. */
const usefulDataBytes = 256;

/** A stream. Subclasses decide when it may send, and call the methods that send only then. */
export abstract class Http2Stream {
  /** The stream identifier; 0 until the stream is open. */
  id: number;
  /** Bytes that may be sent on this stream. */
  sendWindowBytes = 0;
  /** Bytes that the peer may still send on this stream. */
  receiveWindowBytes = 0;
  /** Received bytes that their receiver has not taken. The peer gets no window for them. */
  heldBytes = 0;
  /** Number of small DATA frames so far. */
  smallFrames = 0;
  /** Whether the peer has sent its last byte. */
  isInputComplete = false;
  /** Absent while nothing waits, which is the common case. */
  #waiting: PendingData[] | undefined;
  /** What ends the stream after the waiting bytes: their last one, or trailers. */
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
    let bytes = 0;
    if (this.#waiting !== undefined) for (const pending of this.#waiting) bytes += pending.bytes.length - pending.start;
    return bytes;
  }

  /** Changes the window for what is sent. Returns `false` if it exceeds the maximum of a window. */
  adjustSendWindow(bytes: number): boolean {
    this.sendWindowBytes += bytes;
    return this.sendWindowBytes <= maxWindowBytes;
  }

  /**
   * Sends as much as the windows allow, and the rest when they open.
   *
   * @param bytes are copied, or must not change until they are sent.
   * @param isLast ends the stream.
   */
  protected writeData(host: StreamHost, bytes: Uint8Array, isLast: boolean): void {
    let sent = 0;
    if (this.#waiting === undefined) {
      sent = this.#sendWithinWindows(host, bytes, 0, isLast);
      if (sent === bytes.length) {
        if (isLast) this.onOutputEnd();
        return;
      }
      this.#waiting = [];
    }
    if (isLast) this.#end = "data";
    if (sent === bytes.length) return;
    this.#waiting.push({ bytes, start: sent });
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

  /** Sends waiting bytes; returns `true` when none are left. */
  resume(host: StreamHost): boolean {
    const waiting = this.#waiting;
    if (waiting === undefined) return true;
    for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
      const { bytes, start } = next;
      const isLast = waiting.length === 1 && this.#end === "data";
      next.start = this.#sendWithinWindows(host, bytes, start, isLast);
      host.waitingBytes -= next.start - start;
      if (next.start < bytes.length) return false;
      waiting.shift();
    }
    this.#waiting = undefined;
    const end = this.#end;
    if (end === "data") this.onOutputEnd();
    else if (end !== undefined) this.writeTrailers(host, end);
    return true;
  }

  /** Drops what waits, because the stream is closed. */
  protected dropWaiting(host: StreamHost): void {
    host.waitingBytes -= this.waitingBytes;
    this.#waiting = undefined;
    this.#end = undefined;
  }

  /** Called when END_STREAM has been sent. */
  protected abstract onOutputEnd(): void;

  /** Ends the stream with RST_STREAM, for an error of the peer (§5.4.2). */
  abstract fail(code: ErrorCode, reason: string): void;

  /** Sends `bytes` from `start` as far as the windows allow and returns where it stopped. */
  #sendWithinWindows(host: StreamHost, bytes: Uint8Array, start: number, isLast: boolean): number {
    const { length } = bytes;
    let position = start;
    if (position === length) {
      // Nothing but END_STREAM, which needs no window.
      if (isLast) host.writer.data(this.id, bytes, position, position, true);
      return position;
    }
    while (position < length) {
      const part = Math.min(length - position, maxFramePayloadBytes, this.sendWindowBytes, host.sendWindowBytes);
      if (part <= 0) break;
      const end = position + part;
      host.writer.data(this.id, bytes, position, end, isLast && end === length);
      this.sendWindowBytes -= part;
      host.sendWindowBytes -= part;
      position = end;
    }
    if (position === length || position - start >= usefulDataBytes) host.sentData();
    return position;
  }
}
