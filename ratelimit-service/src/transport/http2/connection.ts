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
import { FloodGuard } from "@gatewayproxy/runtime/http2/flood-guard";
import {
  ConnectionError,
  defaultWindowBytes,
  ErrorCode,
  FrameReader,
  maxWindowBytes,
  Setting,
} from "@gatewayproxy/runtime/http2/frame";
import { FrameDispatch, type FrameHandler } from "@gatewayproxy/runtime/http2/frame-dispatch";
import { FrameWriter } from "@gatewayproxy/runtime/http2/frame-writer";
import { Greeting } from "./greeting.ts";
import type { Http2Limits } from "./limits.ts";
import { Liveness } from "./liveness.ts";
import { type RequestHandler, RequestStreams } from "./request-streams.ts";
import { type ConnectionMemory, type HoldingConnection, openCallBytes } from "./connection-memory.ts";

export interface ConnectionOptions<Head> {
  readonly socket: Socket;
  readonly isTls: boolean;
  readonly handler: RequestHandler<Head>;
  readonly limits: Http2Limits;
  /** The budget of all connections of the server. */
  readonly memory: ConnectionMemory;
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

const keepalivePing = Buffer.from("are u on", "latin1");
const drainPing = Buffer.from("draining", "latin1");

export class ServerConnection<Head> implements HoldingConnection {
  readonly #options: ConnectionOptions<Head>;
  readonly #writer: FrameWriter;
  readonly #reader: FrameReader;
  readonly #streams: RequestStreams<Head>;
  readonly #liveness: Liveness;
  #greeting: Greeting | undefined = new Greeting();
  #phase: Phase = "open";

  /** Takes the socket over. */
  constructor(options: ConnectionOptions<Head>) {
    const { socket, handler, limits, clock } = options;
    this.#options = options;
    // After the promise jobs at hand, so that the answers of one Redis reply leave together.
    this.#writer = new FrameWriter(socket, options.isTls, (flush) => process.nextTick(this.#afterAnswers, flush));
    const idleFrames = new FloodGuard("frames that move no request", clock, 1_000, 100);
    this.#streams = new RequestStreams({
      writer: this.#writer,
      handler,
      limits,
      idleFrames,
      earlyResets: new FloodGuard("requests begun and not finished", clock, 200, 20),
      onIdle: () => this.#endIfClosing(),
      onWaiting: () => this.#tellMemory(),
    });
    const blocks = new BlockAssembly(limits.maxHeaderListBytes, (id, endStream, buffer, start, end) =>
      this.#streams.headerBlock(id, endStream, buffer, start, end),
    );
    const frames = new FrameDispatch({ handler: this.#frameHandler(), writer: this.#writer, blocks, idleFrames });
    this.#reader = new FrameReader((type, flags, id, buffer, start, end) => {
      if (this.#phase !== "failed") frames.take(type, flags, id, buffer, start, end);
    });
    this.#liveness = new Liveness(limits, clock.monotonicMs());
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("drain", () => {
      this.#tellMemory();
      socket.resume();
    });
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

  giveUp(reason: string): void {
    this.#phase = "failed";
    this.#options.onFault(new ConnectionError(ErrorCode.EnhanceYourCalm, reason));
    this.destroy();
  }

  readonly #afterAnswers = (flush: () => void): void => {
    flush();
    this.#tellMemory();
  };

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
    this.#tellMemory();
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

  #tellMemory(): void {
    const { socket, memory } = this.#options;
    const streams = this.#streams;
    const bytes = this.#writer.waitingBytes + streams.waitingBytes + openCallBytes * streams.active;
    memory.update(this, socket.destroyed ? 0 : bytes);
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
    this.#options.memory.update(this, 0);
    this.#options.onClose();
  }

  #endIfClosing(): void {
    if (this.#phase === "closing") {
      this.#writer.flush();
      this.#options.socket.end();
    }
  }

  #frameHandler(): FrameHandler {
    const streams = this.#streams;
    return {
      data: (flags, id, buffer, start, end) => streams.data(flags, id, buffer, start, end),
      rstStream: (id) => streams.rstStream(id),
      windowUpdate: (id, increment) => streams.windowUpdate(id, increment),
      settings: ({ initialWindowBytes }) => {
        if (initialWindowBytes !== undefined) streams.changeInitialWindow(initialWindowBytes);
      },
      pong: (buffer, start) => this.#pong(buffer, start),
      goAway: () => {
        // It speaks of streams that we opened, and there are none: the peer ends the connection itself.
      },
    };
  }

  /** The peer has heard that it should leave: what it began before has reached us. */
  #pong(buffer: Buffer, start: number): void {
    if (this.#phase !== "draining" || drainPing.compare(buffer, start, start + drainPing.length) !== 0) return;
    this.#phase = "closing";
    this.#streams.isClosed = true;
    this.#writer.goAway(this.#streams.lastStreamId, ErrorCode.NoError, "");
    if (this.#streams.active === 0) {
      this.#endIfClosing();
    }
  }
}
