/**
 * What both sides of an HTTP/2 connection do with a frame before they differ (RFC 9113 §4 and §6): its place in the
 * order of frames, its size and whether it may name a stream are checked, header blocks are put together, SETTINGS and
 * PING are answered, and frames that move nothing are counted. What is left is the side's own.
 */
import type { BlockAssembly } from "./block-assembly.ts";
import { demand, demandSize } from "./demand.ts";
import type { FloodGuard } from "./flood-guard.ts";
import { Flag, FrameType } from "./frame.ts";
import type { FrameWriter } from "./frame-writer.ts";
import { type PeerSettings, readSettings } from "./settings.ts";

/** What one side makes of frames that are well formed. May throw `ConnectionError`. */
export interface FrameHandler {
  /** The payload is `buffer[start, end)`, padding included, and is gone after the call. */
  data(flags: number, streamId: number, buffer: Buffer, start: number, end: number): void;
  rstStream(streamId: number, code: number): void;
  /** @param increment 0 to 2^31-1; 0 is an error, of the stream or of the connection. */
  windowUpdate(streamId: number, increment: number): void;
  settings(settings: PeerSettings): void;
  /** The peer has answered a PING of ours, whose eight bytes begin at `start`. */
  pong(buffer: Buffer, start: number): void;
  /** The peer leaves; it has begun no stream of ours after `lastStreamId`. */
  goAway(lastStreamId: number, code: number): void;
}

export interface FrameDispatchOptions {
  readonly handler: FrameHandler;
  readonly writer: FrameWriter;
  /** Hands whole header blocks on. */
  readonly blocks: BlockAssembly;
  readonly idleFrames: FloodGuard;
}

const pingBytes = 8;

export class FrameDispatch {
  readonly #options: FrameDispatchOptions;
  #isSettled = false;

  constructor(options: FrameDispatchOptions) {
    this.#options = options;
  }

  /** Takes one frame, as `FrameSink`. Throws `ConnectionError` where it breaks the protocol. */
  take(type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    const { handler, blocks } = this.#options;
    this.#demandOrder(type, flags, id);
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
        demandSize(end - start === 4, "WINDOW_UPDATE");
        handler.windowUpdate(id, buffer.readUInt32BE(start) & 0x7fff_ffff);
        break;
      case FrameType.RstStream:
        demand(id !== 0, "RST_STREAM belongs to a stream");
        demandSize(end - start === 4, "RST_STREAM");
        handler.rstStream(id, buffer.readUInt32BE(start));
        break;
      default:
        this.#takeIdle(type, flags, id, buffer, start, end);
    }
  }

  /** SETTINGS come first (§3.4), and nothing comes between the pieces of a header block (§4.3). */
  #demandOrder(type: number, flags: number, id: number): void {
    if (!this.#isSettled) {
      demand(type === FrameType.Settings && (flags & Flag.Ack) === 0, "the first frame must be SETTINGS");
      this.#isSettled = true;
    }
    const open = this.#options.blocks.openStreamId;
    demand(open === undefined || (type === FrameType.Continuation && id === open), "a header block is not complete");
  }

  /** Frames that move no stream; their number is bounded. */
  #takeIdle(type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    const { handler, idleFrames } = this.#options;
    idleFrames.count();
    const isAck = (flags & Flag.Ack) !== 0;
    const length = end - start;
    switch (type) {
      case FrameType.Settings:
        demand(id === 0, "SETTINGS belongs to the connection");
        demandSize(isAck ? length === 0 : length % 6 === 0, "SETTINGS");
        if (!isAck) this.#settings(readSettings(buffer, start, end));
        break;
      case FrameType.Ping:
        demand(id === 0, "PING belongs to the connection");
        demandSize(length === pingBytes, "PING");
        if (isAck) handler.pong(buffer, start);
        else this.#options.writer.ping(buffer, start, true);
        break;
      case FrameType.Priority:
        demand(id !== 0, "PRIORITY belongs to a stream");
        demandSize(length === 5, "PRIORITY");
        demand((buffer.readUInt32BE(start) & 0x7fff_ffff) !== id, "a stream cannot depend on itself");
        break;
      case FrameType.GoAway:
        demand(id === 0, "GOAWAY belongs to the connection");
        demandSize(length >= 8, "GOAWAY");
        handler.goAway(buffer.readUInt32BE(start) & 0x7fff_ffff, buffer.readUInt32BE(start + 4));
        break;
      case FrameType.PushPromise:
        // A client cannot, and no server may: as clients we forbid it in our settings (§6.6).
        demand(false, "PUSH_PROMISE is not allowed");
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
