/**
 * Collects the frames of a connection and writes them to its socket in one write. Frames written while a chunk is read
 * are sent after it; the owner decides when other frames are sent.
 */
import type { Socket } from "node:net";
import type { FieldList } from "../ports.ts";
import { clientPreface, type ErrorCode, Flag, FrameType, frameHeaderBytes, maxFramePayloadBytes } from "./frame.ts";
import {
  emptyTableUpdate,
  encodeHeaderBlock,
  type HeaderSource,
  maxBlockBytes,
  writeHeaderBlock,
} from "./hpack/hpack-encoder.ts";

const initialBytes = 8_192;
/** A buffer that a large response has made longer than this is not reused. */
const maxReusedBytes = 65_536;

/** Bytes that may wait for the peer. With more, bodies are not written. */
const maxBodyBytes = 131_072;
const noBytes = Buffer.alloc(0);

/** The socket of a `FrameWriter`, and the times of its writes. */
export interface FrameWriterOptions {
  readonly socket: Socket;
  /**
   * Whether it is a TLS socket. TLS keeps a reference until the bytes are sent, so only a plain socket's buffer is
   * reused.
   */
  readonly isTls: boolean;
  /**
   * Schedules a flush for frames that were not written while a chunk was read: `process.nextTick` runs it after the
   * pending promise jobs, `setImmediate` after all events that the event loop had ready.
   */
  readonly defer: (flush: () => void) => void;
  /** Called when the frames of the flushes up to `flush` have been passed to the kernel. Not called after an error. */
  readonly onWritten: (flush: number) => void;
}

/** Writes the frames of one connection. */
export class FrameWriter {
  readonly #options: FrameWriterOptions;
  readonly #socket: Socket;
  #buffer: Buffer = noBytes;
  #length = 0;
  #written = 0;
  /** The number of flushes. Frames that are written now are sent with the next one. */
  flushes = 0;
  #isCorked = false;
  #isScheduled = false;
  #isFirstBlock = true;

  constructor(options: FrameWriterOptions) {
    this.#options = options;
    this.#socket = options.socket;
  }

  /** Bytes that the peer has not received yet. */
  get waitingBytes(): number {
    return this.#length + this.#socket.writableLength;
  }

  /** Bytes of bodies that may be written now. Other frames are short, and always accepted. */
  get bodyRoom(): number {
    return Math.max(0, maxBodyBytes - this.waitingBytes);
  }

  /** Collects frames without sending them until `uncork`, while one chunk of input is processed. */
  cork(): void {
    this.#isCorked = true;
  }

  uncork(): void {
    this.#isCorked = false;
    this.flush();
  }

  /** Sends the collected frames. */
  flush(): void {
    if (this.#length === 0 || this.#socket.destroyed) {
      this.#length = 0;
      return;
    }
    const bytes = this.#buffer.subarray(0, this.#length);
    this.#length = 0;
    this.flushes++;
    this.#socket.write(bytes, this.#onWritten);
    const { isTls } = this.#options;
    if (isTls || this.#socket.writableLength > 0 || this.#buffer.length > maxReusedBytes) this.#buffer = noBytes;
  }

  readonly #onWritten = (error?: Error | null): void => {
    // Writes end in their order.
    this.#written++;
    if (error == null) this.#options.onWritten(this.#written);
  };

  /** Writes the client connection preface (RFC 9113 §3.4). */
  preface(): void {
    this.#reserve(clientPreface.length);
    this.#bytes(clientPreface, 0, clientPreface.length);
    this.#schedule();
  }

  settings(entries: readonly (readonly [setting: number, value: number])[]): void {
    this.#begin(entries.length * 6, FrameType.Settings, 0, 0);
    for (const [setting, value] of entries) {
      this.#length = this.#buffer.writeUInt16BE(setting, this.#length);
      this.#uint32(value);
    }
  }

  settingsAck(): void {
    this.#begin(0, FrameType.Settings, Flag.Ack, 0);
  }

  /** Writes a PING with the eight bytes at `start` of `source`. */
  ping(source: Uint8Array, start: number, isAck: boolean): void {
    this.#begin(8, FrameType.Ping, isAck ? Flag.Ack : 0, 0);
    this.#bytes(source, start, start + 8);
  }

  windowUpdate(streamId: number, bytes: number): void {
    this.#begin(4, FrameType.WindowUpdate, 0, streamId);
    this.#uint32(bytes);
  }

  rstStream(streamId: number, code: ErrorCode): void {
    this.#begin(4, FrameType.RstStream, 0, streamId);
    this.#uint32(code);
  }

  goAway(lastStreamId: number, code: ErrorCode, debug: string): void {
    const text = Buffer.from(debug, "latin1");
    this.#begin(8 + text.length, FrameType.GoAway, 0, 0);
    this.#uint32(lastStreamId);
    this.#uint32(code);
    this.#bytes(text, 0, text.length);
  }

  /** Writes a header block; one that does not fit into a frame continues in CONTINUATION frames. */
  headers(streamId: number, source: HeaderSource, endStream: boolean): void {
    if (!(source instanceof Uint8Array)) {
      const bytes = maxBlockBytes(source);
      if (!this.#isFirstBlock && bytes <= maxFramePayloadBytes) this.#fields(streamId, source, bytes, endStream);
      else this.headers(streamId, encodeHeaderBlock(source), endStream);
      return;
    }
    const block = source;
    const prefixBytes = this.#isFirstBlock ? emptyTableUpdate.length : 0;
    const firstEnd = Math.min(block.length, maxFramePayloadBytes - prefixBytes);
    const isWhole = firstEnd === block.length;
    const flags = (endStream ? Flag.EndStream : 0) | (isWhole ? Flag.EndHeaders : 0);
    this.#begin(prefixBytes + firstEnd, FrameType.Headers, flags, streamId);
    if (this.#isFirstBlock) {
      this.#isFirstBlock = false;
      this.#bytes(emptyTableUpdate, 0, emptyTableUpdate.length);
    }
    this.#bytes(block, 0, firstEnd);
    for (let start = firstEnd; start < block.length; start += maxFramePayloadBytes) {
      const end = Math.min(block.length, start + maxFramePayloadBytes);
      this.#begin(end - start, FrameType.Continuation, end === block.length ? Flag.EndHeaders : 0, streamId);
      this.#bytes(block, start, end);
    }
  }

  /** Encodes fields in place. @param maxBytes the maximum length of the block. */
  #fields(streamId: number, fields: FieldList, maxBytes: number, endStream: boolean): void {
    this.#reserve(frameHeaderBytes + maxBytes);
    const start = this.#length;
    const flags = (endStream ? Flag.EndStream : 0) | Flag.EndHeaders;
    const end = writeHeaderBlock(this.#buffer, start + frameHeaderBytes, fields);
    this.#begin(end - start - frameHeaderBytes, FrameType.Headers, flags, streamId);
    this.#length = end;
  }

  /** Writes `source[start, end)`, at most one frame. */
  data(streamId: number, source: Uint8Array, start: number, end: number, endStream = false): void {
    this.#begin(end - start, FrameType.Data, endStream ? Flag.EndStream : 0, streamId);
    this.#bytes(source, start, end);
  }

  #begin(length: number, type: number, flags: number, streamId: number): void {
    this.#reserve(frameHeaderBytes + length);
    const buffer = this.#buffer;
    let at = this.#length;
    buffer[at++] = length >>> 16;
    buffer[at++] = length >>> 8;
    buffer[at++] = length;
    buffer[at++] = type;
    buffer[at++] = flags;
    buffer[at++] = streamId >>> 24;
    buffer[at++] = streamId >>> 16;
    buffer[at++] = streamId >>> 8;
    buffer[at++] = streamId;
    this.#length = at;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isCorked || this.#isScheduled) return;
    this.#isScheduled = true;
    this.#options.defer(this.#flushLater);
  }

  readonly #flushLater = (): void => {
    this.#isScheduled = false;
    if (!this.#isCorked) this.flush();
  };

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2, initialBytes));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
  }

  #bytes(source: Uint8Array, start: number, end: number): void {
    const buffer = this.#buffer;
    let at = this.#length;
    if (end - start <= 64) {
      // The few bytes of an ordinary response are copied without a native call.
      for (let index = start; index < end; index++) {
        buffer[at++] = source[index] ?? 0;
      }
      this.#length = at;
      return;
    }
    buffer.set(start === 0 && end === source.length ? source : source.subarray(start, end), at);
    this.#length = at + end - start;
  }

  #uint32(value: number): void {
    this.#length = this.#buffer.writeUInt32BE(value, this.#length);
  }
}
