/**
 * Processes frames as far as both sides of an HTTP/2 connection do the same (RFC 9113 §4 and §6): checks the order of
 * frames, their size and their stream identifier, assembles header blocks, acknowledges SETTINGS and PING, and counts
 * frames that make no progress. The rest is passed to the `FrameHandler` of the side.
 */
import type { HeaderBlockAssembler } from "./header-block-assembler.ts";
import { assertProtocol, assertFrameSize } from "./assert-protocol.ts";
import type { FloodLimit } from "./flood-limit.ts";
import { Flag, FrameType } from "./frame.ts";
import type { FrameWriter } from "./frame-writer.ts";
import { type PeerSettings, readSettings } from "./settings.ts";

/** Handles the well-formed frames of one side. May throw `ConnectionError`. */
export interface FrameHandler {
  /** The payload is `buffer[start, end)`, padding included, and is valid only during the call. */
  data(flags: number, streamId: number, buffer: Buffer, start: number, end: number): void;
  rstStream(streamId: number, code: number): void;
  /** @param increment 0 to 2^31-1; 0 is an error, of the stream or of the connection. */
  windowUpdate(streamId: number, increment: number): void;
  settings(settings: PeerSettings): void;
  /** The peer has acknowledged a PING, whose eight bytes begin at `start`. */
  pong(buffer: Buffer, start: number): void;
  /** The peer closes the connection. It has processed no stream of this side after `lastStreamId`. */
  goAway(lastStreamId: number, code: number): void;
}

/** Options of a `FrameDispatch`. */
export interface FrameDispatchOptions {
  /** Receives the frames that the two sides process differently. */
  readonly handler: FrameHandler;
  /** Receives acknowledgements. */
  readonly writer: FrameWriter;
  /** Assembles header blocks and passes them on. */
  readonly blocks: HeaderBlockAssembler;
  /** Bounds frames that make no progress. */
  readonly idleFrames: FloodLimit;
}

const pingBytes = 8;

/** Dispatches the frames of one connection. */
export class FrameDispatch {
  readonly #options: FrameDispatchOptions;
  #hasSettings = false;

  constructor(options: FrameDispatchOptions) {
    this.#options = options;
  }

  /** Processes one frame, as a `FrameSink`. Throws `ConnectionError` for a violation of the protocol. */
  dispatch(type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    const { handler, blocks } = this.#options;
    this.#assertOrder(type, flags, id);
    switch (type) {
      case FrameType.Data:
        handler.data(flags, id, buffer, start, end);
        break;
      case FrameType.Headers:
        blocks.headers(flags, id, buffer, start, end);
        break;
      case FrameType.Continuation:
        blocks.continuation(flags, buffer, start, end);
        break;
      case FrameType.WindowUpdate:
        assertFrameSize(end - start === 4, "WINDOW_UPDATE");
        handler.windowUpdate(id, buffer.readUInt32BE(start) & 0x7fff_ffff);
        break;
      case FrameType.RstStream:
        assertProtocol(id !== 0, "RST_STREAM belongs to a stream");
        assertFrameSize(end - start === 4, "RST_STREAM");
        handler.rstStream(id, buffer.readUInt32BE(start));
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
    const open = this.#options.blocks.openStreamId;
    assertProtocol(
      open === undefined || (type === FrameType.Continuation && id === open),
      "a header block is not complete",
    );
  }

  /** Processes frames that do not advance a stream. Their number is bounded. */
  #processIdle(type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    const { handler, idleFrames } = this.#options;
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
        if (isAck) handler.pong(buffer, start);
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
        handler.goAway(buffer.readUInt32BE(start) & 0x7fff_ffff, buffer.readUInt32BE(start + 4));
        break;
      case FrameType.PushPromise:
        // A client must not send it, and a server must not either: clients disable push in their SETTINGS (§6.6).
        assertProtocol(false, "PUSH_PROMISE is not allowed");
        break;
      default:
        // Unknown types are ignored (§5.5).
        break;
    }
  }

  #settings(settings: PeerSettings): void {
    this.#options.writer.settingsAck();
    this.#options.handler.settings(settings);
  }
}
