/**
 * Reads the frames of a connection, as far as client and server do the same (RFC 9113 §4 and §6): checks the order of
 * frames, their size and their stream identifier, assembles header blocks, acknowledges SETTINGS and PING, and counts
 * frames that make no progress. All other frames are passed to the streams and to the control of the connection.
 */
import { HeaderBlockAssembler } from "./header-block-assembler.ts";
import { assertProtocol, assertFrameSize } from "./assert-protocol.ts";
import type { FloodLimit } from "./flood-limit.ts";
import { Flag, FrameReader, FrameType } from "./frame.ts";
import type { FrameWriter } from "./frame-writer.ts";
import { type PeerSettings, readSettings } from "./settings.ts";

/** Receives the well-formed frames of streams. May throw `ConnectionError`. */
export interface StreamFrames {
  /** The payload is `buffer[start, end)`, padding included, and is valid only during the call. */
  data(flags: number, streamId: number, buffer: Buffer, start: number, end: number): void;
  /** A whole header block is `buffer[start, end)`, which is valid only during the call. */
  headerBlock(streamId: number, endStream: boolean, buffer: Buffer, start: number, end: number): void;
  rstStream(streamId: number, code: number): void;
  /** @param increment 0 to 2^31-1; 0 is an error, of the stream or of the connection. */
  windowUpdate(streamId: number, increment: number): void;
}

/** Receives the well-formed frames of the connection as a whole. May throw `ConnectionError`. */
export interface ControlFrames {
  settings(settings: PeerSettings): void;
  /** The peer has acknowledged a PING, whose eight bytes begin at `start`. */
  pong(buffer: Buffer, start: number): void;
  /** The peer closes the connection. It has processed no stream of this side after `lastStreamId`. */
  goAway(lastStreamId: number, code: number): void;
}

/** Options of a `FrameDispatch`. */
export interface FrameDispatchOptions {
  readonly streams: StreamFrames;
  readonly control: ControlFrames;
  /** Receives acknowledgements. */
  readonly writer: FrameWriter;
  /** Bounds frames that make no progress. */
  readonly idleFrames: FloodLimit;
  /** The maximum size of a header block that spans several frames. */
  readonly maxBlockBytes: number;
  /** As for `FrameReader`. */
  readonly mayBegin?: (() => boolean) | undefined;
}

const pingBytes = 8;

/** Reads and dispatches the frames of one connection. */
export class FrameDispatch {
  readonly #options: FrameDispatchOptions;
  readonly #reader: FrameReader;
  readonly #blocks: HeaderBlockAssembler;
  #hasSettings = false;
  #isStopped = false;

  constructor(options: FrameDispatchOptions) {
    this.#options = options;
    this.#blocks = new HeaderBlockAssembler(options.maxBlockBytes, options.streams);
    this.#reader = new FrameReader((type, flags, id, buffer, start, end) => {
      if (!this.#isStopped) this.#dispatch(type, flags, id, buffer, start, end);
    }, options.mayBegin);
  }

  /** Bytes of an incomplete frame, of a read that waits for `readHeld`, and of an incomplete header block. */
  get heldBytes(): number {
    return this.#reader.heldBytes + this.#blocks.heldBytes;
  }

  /** Whether frames wait for `readHeld`. */
  get isHeld(): boolean {
    return this.#reader.isHeld && !this.#isStopped;
  }

  /**
   * The number of the header block that has begun and not ended; undefined if there is none. Only its CONTINUATION
   * frames may follow (§4.3).
   */
  get openBlock(): number | undefined {
    const isOpen = this.#blocks.openStreamId !== undefined || this.#reader.heldType === FrameType.Headers;
    return isOpen ? this.#blocks.ended : undefined;
  }

  /** Processes received bytes. Throws `ConnectionError` for a violation of the protocol. */
  read(chunk: Buffer): void {
    if (!this.#isStopped) this.#reader.read(chunk);
  }

  /** As `read`, with the frames that wait since `mayBegin` has returned false. */
  readHeld(): void {
    if (!this.#isStopped) this.#reader.readHeld();
  }

  /** Ignores all further frames, also those of the chunk that is being read. */
  stop(): void {
    this.#isStopped = true;
  }

  #dispatch(type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    const { streams } = this.#options;
    this.#assertOrder(type, flags, id);
    switch (type) {
      case FrameType.Data:
        streams.data(flags, id, buffer, start, end);
        break;
      case FrameType.Headers:
        this.#blocks.headers(flags, id, buffer, start, end);
        break;
      case FrameType.Continuation:
        this.#blocks.continuation(flags, buffer, start, end);
        break;
      case FrameType.WindowUpdate:
        assertFrameSize(end - start === 4, "WINDOW_UPDATE");
        streams.windowUpdate(id, buffer.readUInt32BE(start) & 0x7fff_ffff);
        break;
      case FrameType.RstStream:
        assertProtocol(id !== 0, "RST_STREAM belongs to a stream");
        assertFrameSize(end - start === 4, "RST_STREAM");
        streams.rstStream(id, buffer.readUInt32BE(start));
        break;
      default:
        this.#processIdle(type, flags, id, buffer, start, end);
    }
  }

  /** The first frame must be SETTINGS (§3.4), and only CONTINUATION may follow an incomplete header block (§4.3). */
  #assertOrder(type: number, flags: number, id: number): void {
    if (!this.#hasSettings) {
      assertProtocol(type === FrameType.Settings && (flags & Flag.Ack) === 0, "the first frame must be SETTINGS");
      this.#hasSettings = true;
    }
    const open = this.#blocks.openStreamId;
    assertProtocol(
      open === undefined || (type === FrameType.Continuation && id === open),
      "a header block is not complete",
    );
  }

  /** Processes frames that do not advance a stream. Their number is bounded. */
  #processIdle(type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    const { control, idleFrames } = this.#options;
    idleFrames.count();
    const isAck = (flags & Flag.Ack) !== 0;
    const length = end - start;
    switch (type) {
      case FrameType.Settings:
        assertProtocol(id === 0, "SETTINGS belongs to the connection");
        assertFrameSize(isAck ? length === 0 : length % 6 === 0, "SETTINGS");
        if (!isAck) this.#settings(readSettings(buffer, start, end));
        break;
      case FrameType.Ping:
        assertProtocol(id === 0, "PING belongs to the connection");
        assertFrameSize(length === pingBytes, "PING");
        if (isAck) control.pong(buffer, start);
        else this.#options.writer.ping(buffer, start, true);
        break;
      case FrameType.Priority:
        assertProtocol(id !== 0, "PRIORITY belongs to a stream");
        assertFrameSize(length === 5, "PRIORITY");
        assertProtocol((buffer.readUInt32BE(start) & 0x7fff_ffff) !== id, "a stream cannot depend on itself");
        break;
      case FrameType.GoAway:
        assertProtocol(id === 0, "GOAWAY belongs to the connection");
        assertFrameSize(length >= 8, "GOAWAY");
        control.goAway(buffer.readUInt32BE(start) & 0x7fff_ffff, buffer.readUInt32BE(start + 4));
        break;
      case FrameType.PushPromise:
        // A client must not send it. A server must not send it either, because clients disable push in their SETTINGS
        // (§6.6).
        assertProtocol(false, "PUSH_PROMISE is not allowed");
        break;
      default:
        // Unknown types are ignored (§5.5).
        break;
    }
  }

  #settings(settings: PeerSettings): void {
    this.#options.writer.settingsAck();
    this.#options.control.settings(settings);
  }
}
