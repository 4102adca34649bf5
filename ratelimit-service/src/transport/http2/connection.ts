/**
 * The server's side of one HTTP/2 connection (RFC 9113), from greeting to farewell: owns the socket and the frames that
 * belong to the connection as a whole; requests are `request-streams.ts`. Made for many small requests: a whole answer
 * leaves in one write with its neighbours, and a header block that came before is not decoded again.
 *
 * What the peer can make us hold or do is bounded: streams, header bytes, CONTINUATION frames, unread output, and frames
 * that move no request (`FloodGuard`). Not supported, and refused or ignored as the protocol says: server push, CONNECT,
 * priorities, frames larger than the default.
 */
import type { Socket } from "node:net";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { BlockAssembly } from "@gatewayproxy/runtime/http2/block-assembly";
import { demand, demandSize } from "@gatewayproxy/runtime/http2/demand";
import { FloodGuard } from "@gatewayproxy/runtime/http2/flood-guard";
import {
  ConnectionError,
  defaultWindowBytes,
  ErrorCode,
  Flag,
  FrameReader,
  FrameType,
  maxWindowBytes,
  Setting,
} from "@gatewayproxy/runtime/http2/frame";
import { FrameWriter } from "@gatewayproxy/runtime/http2/frame-writer";
import { Greeting } from "./greeting.ts";
import type { Http2Limits } from "./limits.ts";
import { Liveness } from "./liveness.ts";
import { type RequestHandler, RequestStreams } from "./request-streams.ts";
import { readSettings } from "@gatewayproxy/runtime/http2/settings";

export interface ConnectionOptions<Head> {
  readonly socket: Socket;
  readonly isTls: boolean;
  readonly handler: RequestHandler<Head>;
  readonly limits: Http2Limits;
  readonly clock: Clock;
  /** Called once, when the socket is gone. */
  readonly onClose: () => void;
  /** Why the connection was given up: `ConnectionError` for the peer's fault, anything else is ours. */
  readonly onFault: (error: unknown) => void;
}

/**
 * - `open`: takes requests.
 * - `draining`: the peer was told to leave; requests that crossed the word on their way are still taken.
 * - `closing`: no new request; the connection ends with the last answer.
 * - `failed`: the peer was told why, and nothing it says matters any more.
 */
type Phase = "open" | "draining" | "closing" | "failed";

const pingBytes = 8;
const keepalivePing = Buffer.from("are u on", "latin1");
const drainPing = Buffer.from("draining", "latin1");

export class ServerConnection<Head> {
  readonly #options: ConnectionOptions<Head>;
  readonly #writer: FrameWriter;
  readonly #reader: FrameReader;
  readonly #streams: RequestStreams<Head>;
  readonly #blocks: BlockAssembly;
  readonly #liveness: Liveness;
  readonly #idleFrames: FloodGuard;
  #greeting: Greeting | undefined = new Greeting();
  #isSettled = false;
  #phase: Phase = "open";

  /** Takes the socket over. */
  constructor(options: ConnectionOptions<Head>) {
    const { socket, handler, limits, clock } = options;
    this.#options = options;
    // After the promise jobs at hand, so that the answers of one Redis reply leave together.
    this.#writer = new FrameWriter(socket, options.isTls, (flush) => process.nextTick(flush));
    this.#reader = new FrameReader(this.#frame);
    this.#idleFrames = new FloodGuard(clock, 1_000, 100);
    this.#streams = new RequestStreams({
      writer: this.#writer,
      handler,
      limits,
      idleFrames: this.#idleFrames,
      earlyResets: new FloodGuard(clock, 200, 20),
      onIdle: () => this.#endIfClosing(),
    });
    this.#blocks = new BlockAssembly(limits.maxHeaderListBytes, (id, endStream, buffer, start, end) =>
      this.#streams.headerBlock(id, endStream, buffer, start, end),
    );
    this.#liveness = new Liveness(limits, clock.monotonicMs());
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("drain", () => socket.resume());
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#closed());
  }

  /** Looks after the peer's silence; to be called about once a second. */
  check(nowMs: number): void {
    if (this.#phase === "failed") {
      // It had a second to read why.
      this.destroy();
      return;
    }
    switch (this.#liveness.check(nowMs, this.#greeting === undefined)) {
      case "ask":
        this.#writer.ping(keepalivePing, 0, false);
        break;
      case "dead":
        this.destroy();
        break;
      case "alive":
        break;
    }
  }

  /**
   * Tells the peer to make its next requests elsewhere (GOAWAY) and ends the connection after the last answer. Requests
   * that cross the word on their way are served: the final word follows when the peer has heard the first (§6.8).
   */
  drain(): void {
    if (this.#greeting !== undefined) {
      this.destroy();
    } else if (this.#phase === "open") {
      this.#phase = "draining";
      this.#writer.goAway(maxWindowBytes, ErrorCode.NoError, "");
      this.#writer.ping(drainPing, 0, false);
    }
  }

  /** Ends the connection at once, whatever is under way. */
  destroy(): void {
    this.#options.socket.destroy();
  }

  /** Only to who has greeted: a stranger would not understand it. */
  #greet(): void {
    const { limits } = this.#options;
    this.#writer.settings([
      [Setting.MaxConcurrentStreams, limits.maxConcurrentStreams],
      [Setting.InitialWindowSize, limits.streamWindowBytes],
      [Setting.MaxHeaderListSize, limits.maxHeaderListBytes],
    ]);
    this.#writer.windowUpdate(0, limits.connectionWindowBytes - defaultWindowBytes);
  }

  #receive(chunk: Buffer): void {
    if (this.#phase === "failed") {
      return;
    }
    this.#liveness.sawInput = true;
    this.#writer.hold();
    try {
      this.#read(chunk);
      this.#boundWaiting();
    } catch (error) {
      this.#fail(error);
    }
    this.#writer.release();
    const { socket } = this.#options;
    if (socket.writableNeedDrain) {
      // Who does not read answers gets no more of its requests read.
      socket.pause();
    }
  }

  #read(chunk: Buffer): void {
    if (this.#greeting === undefined) {
      this.#reader.read(chunk);
      return;
    }
    const outcome = this.#greeting.read(chunk);
    switch (outcome.kind) {
      case "incomplete":
        break;
      case "stranger":
        this.#phase = "failed";
        this.#options.socket.end(outcome.answer);
        break;
      case "greeted":
        this.#greeting = undefined;
        this.#greet();
        this.#reader.read(outcome.rest);
        break;
    }
  }

  #boundWaiting(): void {
    const bytes = this.#writer.waitingBytes + this.#streams.waitingBytes;
    if (bytes > this.#options.limits.maxWaitingBytes) {
      throw new ConnectionError(ErrorCode.EnhanceYourCalm, `${bytes} bytes of answers are not read`);
    }
  }

  #fail(error: unknown): void {
    const isPeersFault = error instanceof ConnectionError;
    const code = isPeersFault ? error.code : ErrorCode.InternalError;
    this.#phase = "failed";
    this.#writer.goAway(this.#streams.lastStreamId, code, isPeersFault ? error.message : "");
    this.#writer.flush();
    this.#options.socket.end();
    this.#options.onFault(error);
  }

  #closed(): void {
    this.#phase = "failed";
    this.#streams.cancelAll();
    this.#options.onClose();
  }

  #endIfClosing(): void {
    if (this.#phase === "closing") {
      this.#writer.flush();
      this.#options.socket.end();
    }
  }

  readonly #frame = (type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void => {
    if (this.#phase === "failed") {
      return;
    }
    if (!this.#isSettled) {
      demand(type === FrameType.Settings && (flags & Flag.Ack) === 0, "the first frame must be SETTINGS");
      this.#isSettled = true;
    }
    const open = this.#blocks.openStreamId;
    demand(open === undefined || (type === FrameType.Continuation && id === open), "a header block is not complete");
    switch (type) {
      case FrameType.Data:
        this.#streams.data(flags, id, buffer, start, end);
        break;
      case FrameType.Headers:
        this.#blocks.headers(flags, id, buffer, start, end);
        break;
      case FrameType.Continuation:
        this.#blocks.continuation(flags, buffer, start, end);
        break;
      case FrameType.WindowUpdate:
        this.#streams.windowUpdate(id, buffer, start, end);
        break;
      case FrameType.RstStream:
        this.#streams.rstStream(id, end - start);
        break;
      default:
        this.#idleFrame(type, flags, id, buffer, start, end);
    }
  };

  /** Frames that move no request; their number is bounded. */
  #idleFrame(type: number, flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    if (!this.#idleFrames.allows()) {
      throw new ConnectionError(ErrorCode.EnhanceYourCalm, "too many frames that move no request");
    }
    switch (type) {
      case FrameType.Settings:
        demand(id === 0, "SETTINGS belongs to the connection");
        this.#settings((flags & Flag.Ack) !== 0, buffer, start, end);
        break;
      case FrameType.Ping:
        demand(id === 0, "PING belongs to the connection");
        this.#ping((flags & Flag.Ack) !== 0, buffer, start, end);
        break;
      case FrameType.Priority:
        demand(id !== 0, "PRIORITY belongs to a stream");
        demandSize(end - start === 5, "PRIORITY");
        demand((buffer.readUInt32BE(start) & 0x7fff_ffff) !== id, "a stream cannot depend on itself");
        break;
      case FrameType.GoAway:
        // It speaks of streams that we opened, and there are none: the peer ends the connection itself.
        demand(id === 0, "GOAWAY belongs to the connection");
        demandSize(end - start >= 8, "GOAWAY");
        break;
      case FrameType.PushPromise:
        throw new ConnectionError(ErrorCode.ProtocolError, "a client cannot push");
      default:
        // Unknown types are ignored (§5.5).
        break;
    }
  }

  #settings(isAck: boolean, buffer: Buffer, start: number, end: number): void {
    const length = end - start;
    demandSize(isAck ? length === 0 : length % 6 === 0, "SETTINGS");
    if (isAck) {
      return;
    }
    const { initialWindowBytes } = readSettings(buffer, start, end);
    this.#writer.settingsAck();
    if (initialWindowBytes !== undefined) {
      this.#streams.changeInitialWindow(initialWindowBytes);
    }
  }

  #ping(isAck: boolean, buffer: Buffer, start: number, end: number): void {
    demandSize(end - start === pingBytes, "PING");
    if (!isAck) {
      this.#writer.ping(buffer, start, true);
    } else if (this.#phase === "draining" && drainPing.compare(buffer, start, end) === 0) {
      this.#phase = "closing";
      this.#streams.isClosed = true;
      this.#writer.goAway(this.#streams.lastStreamId, ErrorCode.NoError, "");
      if (this.#streams.active === 0) {
        this.#endIfClosing();
      }
    }
  }
}
