/**
 * Gathers the frames of a connection and hands them to its socket in one write. Frames written while a chunk is being
 * read leave at its end; when frames written at other times leave is for the side to say that writes them.
 */
import type { Socket } from "node:net";
import { clientPreface, type ErrorCode, Flag, FrameType, frameHeaderBytes, maxFramePayloadBytes } from "./frame.ts";
import { emptyTableUpdate } from "./hpack-encoder.ts";

const initialBytes = 8_192;
/** A buffer that one large answer made larger than this is not kept. */
const keptBytes = 65_536;

export class FrameWriter {
  readonly #socket: Socket;
  /** TLS keeps what it is given until it is encrypted and sent, so only a plain socket's buffer can be used again. */
  readonly #canReuse: boolean;
  #buffer: Buffer = Buffer.allocUnsafeSlow(initialBytes);
  #length = 0;
  #isHeld = false;
  #isScheduled = false;
  #isFirstBlock = true;
  readonly #defer: (flush: () => void) => void;

  /**
   * @param defer calls what it is given when frames are to leave that were not written while a chunk was read:
   *   `process.nextTick` after the promise jobs at hand, `setImmediate` after everything that the event loop had ready.
   */
  constructor(socket: Socket, isTls: boolean, defer: (flush: () => void) => void) {
    this.#socket = socket;
    this.#canReuse = !isTls;
    this.#defer = defer;
  }

  /** Bytes that the peer has not taken yet. */
  get waitingBytes(): number {
    return this.#length + this.#socket.writableLength;
  }

  /** Frames stay here until `release`, while one chunk of input is handled. */
  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    this.flush();
  }

  /** Sends what is gathered. */
  flush(): void {
    if (this.#length === 0 || this.#socket.destroyed) {
      this.#length = 0;
      return;
    }
    const bytes = this.#buffer.subarray(0, this.#length);
    this.#length = 0;
    this.#socket.write(bytes);
    if (!this.#canReuse || this.#socket.writableLength > 0 || this.#buffer.length > keptBytes) {
      this.#buffer = Buffer.allocUnsafeSlow(initialBytes);
    }
  }

  /** What a client says before all frames. */
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

  /** The eight bytes at `start` of `source`. */
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

  /** A whole header block; longer ones than a frame holds go on in CONTINUATION frames. */
  headers(streamId: number, block: Uint8Array, endStream: boolean): void {
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

  /** `source[start, end)`, at most a frame long. */
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
    if (this.#isHeld || this.#isScheduled) return;
    this.#isScheduled = true;
    this.#defer(this.#flushLater);
  }

  readonly #flushLater = (): void => {
    this.#isScheduled = false;
    if (!this.#isHeld) this.flush();
  };

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
  }

  #bytes(source: Uint8Array, start: number, end: number): void {
    const buffer = this.#buffer;
    let at = this.#length;
    if (end - start <= 64) {
      // A loop beats the call of a native copy for the few bytes of an ordinary answer.
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
