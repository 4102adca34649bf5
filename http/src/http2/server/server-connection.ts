/**
 * The server's side of one HTTP/2 connection (RFC 9113). It owns the socket and the frames of the connection as a
 * whole; requests are in `request-streams.ts`. It is made for many small requests: responses of one turn leave in one
 * write, and a header block that was seen before is not decoded again.
 *
 * The memory and work that a peer can cause is bounded: streams, header bytes, CONTINUATION frames, unread output, and
 * frames that do not advance a request (`FloodLimit`). Not supported, and rejected or ignored as the protocol
 * specifies: server push, CONNECT, priorities, frames larger than the default.
 */
import type { Socket } from "node:net";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { FloodLimit } from "../flood-limit.ts";
import { ConnectionError, defaultWindowBytes, ErrorCode, maxWindowBytes, Setting } from "../frame.ts";
import { type ControlFrames, FrameDispatch } from "../frame-dispatch.ts";
import { FrameWriter } from "../frame-writer.ts";
import { PrefaceReader } from "./preface-reader.ts";
import type { Http2Limits } from "./server-limits.ts";
import { Liveness } from "./liveness.ts";
import { type RequestHandler, RequestStreams } from "./request-streams.ts";
import { type ConnectionMemory, type ChargedConnection, openCallBytes } from "./connection-memory.ts";

/** A socket, its bounds, and the receivers of its events. */
export interface ConnectionOptions<Head> {
  /** An accepted socket; with TLS after its handshake. */
  readonly socket: Socket;
  /** Whether `socket` is a TLS socket, which keeps a written buffer after the write. */
  readonly isTls: boolean;
  /** Receives the requests. */
  readonly handler: RequestHandler<Head>;
  /** The bounds of the connection. */
  readonly limits: Http2Limits;
  /** The budget of all connections of the server. */
  readonly memory: ConnectionMemory;
  /** Times the preface, pings and floods of frames. */
  readonly clock: Clock;
  /** Called once, when the socket is closed. */
  readonly onClose: () => void;
  /**
   * Called with the reason why the connection is closed: `ConnectionError` for an error of the peer; any other is
   * internal.
   */
  readonly onError: (error: unknown) => void;
}

/**
 * The state of a connection.
 * - `open`: accepts requests. `drain` moves it to `draining`.
 * - `draining`: GOAWAY was sent; requests that the peer sent before it arrived are still accepted. The reply to a PING
 *   moves it to `closing`.
 * - `closing`: accepts no new requests. The end of the last response ends the connection.
 * - `failed`: GOAWAY with an error was sent, or the socket is closed; further input is ignored. An error of the peer,
 *   an internal error, `closeForMemory` and the end of the socket move any state here.
 */
type Phase = "open" | "draining" | "closing" | "failed";

/** A shorter DATA frame that does not end its request counts for the flood limit. */
const smallFrameBytes = 256;

const keepalivePing = Buffer.from("are u on", "latin1");
const drainPing = Buffer.from("draining", "latin1");

/** One connection of a client. `drain` ends it in order, `destroy` at once. */
export class ServerConnection<Head> implements ChargedConnection {
  readonly #options: ConnectionOptions<Head>;
  readonly #writer: FrameWriter;
  readonly #frames: FrameDispatch;
  readonly #streams: RequestStreams<Head>;
  readonly #liveness: Liveness;
  #preface: PrefaceReader | undefined = new PrefaceReader();
  #phase: Phase = "open";

  /** Takes ownership of the socket. */
  constructor(options: ConnectionOptions<Head>) {
    const { socket, handler, limits, clock } = options;
    this.#options = options;
    // Flushes after the pending promise jobs, so that the responses to one Redis reply leave together.
    this.#writer = new FrameWriter(socket, options.isTls, (flush) => process.nextTick(this.#afterFlush, flush));
    const idleFrames = new FloodLimit("frames that do not advance a request", clock, 1_000, 100);
    this.#streams = new RequestStreams({
      writer: this.#writer,
      handler,
      limits,
      windows: limits,
      idleFrames,
      smallFrames: idleFrames,
      smallFrameBytes,
      earlyResets: new FloodLimit("requests that are begun and not finished", clock, 200, 20),
      onIdle: () => this.#endIfClosing(),
      onWaiting: () => this.#updateMemory(),
    });
    this.#frames = new FrameDispatch({
      streams: this.#streams,
      control: this.#controlFrames(),
      writer: this.#writer,
      idleFrames,
      maxBlockBytes: limits.maxHeaderListBytes,
    });
    this.#liveness = new Liveness(limits, clock.monotonicMs());
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("drain", () => {
      this.#updateMemory();
      socket.resume();
    });
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#closed());
  }

  /** Checks for a silent peer. To be called about once a second. */
  check(nowMs: number): void {
    if (this.#phase === "failed") {
      // The peer had a second to read the reason.
      this.destroy();
      return;
    }
    switch (this.#liveness.check(nowMs, this.#preface === undefined)) {
      case "ping":
        this.#writer.ping(keepalivePing, 0, false);
        break;
      case "timedOut":
        this.destroy();
        break;
      case "alive":
        break;
    }
  }

  /**
   * Asks the peer to send its next requests elsewhere (GOAWAY) and ends the connection after the last response.
   * Requests that cross the GOAWAY are served: the final GOAWAY follows when the peer has acknowledged a PING after the
   * first (§6.8).
   */
  drain(): void {
    if (this.#preface !== undefined) {
      this.destroy();
    } else if (this.#phase === "open") {
      this.#phase = "draining";
      this.#writer.goAway(maxWindowBytes, ErrorCode.NoError, "");
      this.#writer.ping(drainPing, 0, false);
    }
  }

  /** Closes the connection at once, with all requests in progress. */
  destroy(): void {
    this.#options.socket.destroy();
  }

  closeForMemory(reason: string): void {
    this.#stop();
    this.#options.onError(new ConnectionError(ErrorCode.EnhanceYourCalm, reason));
    this.destroy();
  }

  readonly #afterFlush = (flush: () => void): void => {
    flush();
    this.#updateMemory();
  };

  /** Sent only after the client's preface: other clients would not understand it. */
  #sendSettings(): void {
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
    this.#writer.cork();
    try {
      this.#read(chunk);
      this.#boundWaiting();
    } catch (error) {
      this.#fail(error);
    }
    this.#writer.uncork();
    this.#updateMemory();
    const { socket } = this.#options;
    if (socket.writableNeedDrain) {
      // Stops reading requests of a peer that does not read its responses.
      socket.pause();
    }
  }

  #read(chunk: Buffer): void {
    if (this.#preface === undefined) {
      this.#frames.read(chunk);
      return;
    }
    const outcome = this.#preface.read(chunk);
    switch (outcome.kind) {
      case "incomplete":
        break;
      case "mismatch":
        this.#stop();
        this.#options.socket.end(outcome.response);
        break;
      case "complete":
        this.#preface = undefined;
        this.#sendSettings();
        this.#frames.read(outcome.rest);
        break;
    }
  }

  #boundWaiting(): void {
    const bytes = this.#writer.waitingBytes + this.#streams.waitingBytes;
    if (bytes > this.#options.limits.maxWaitingBytes) {
      throw new ConnectionError(ErrorCode.EnhanceYourCalm, `${bytes} bytes of responses are not read`);
    }
  }

  #updateMemory(): void {
    const { socket, memory } = this.#options;
    const streams = this.#streams;
    const bytes = this.#writer.waitingBytes + streams.waitingBytes + openCallBytes * streams.active;
    memory.update(this, socket.destroyed ? 0 : bytes);
  }

  #fail(error: unknown): void {
    const isPeerError = error instanceof ConnectionError;
    const code = isPeerError ? error.code : ErrorCode.InternalError;
    this.#stop();
    this.#writer.goAway(this.#streams.lastStreamId, code, isPeerError ? error.message : "");
    this.#writer.flush();
    this.#options.socket.end();
    this.#options.onError(error);
  }

  /** Ignores further input, also of the chunk that is being read. */
  #stop(): void {
    this.#phase = "failed";
    this.#frames.stop();
  }

  #closed(): void {
    this.#stop();
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

  #controlFrames(): ControlFrames {
    return {
      settings: ({ initialWindowBytes }) => {
        if (initialWindowBytes !== undefined) this.#streams.changeInitialWindow(initialWindowBytes);
      },
      pong: (buffer, start) => this.#pong(buffer, start),
      goAway: () => {
        // Refers to streams that the server opened, and there are none; the peer ends the connection itself.
      },
    };
  }

  /** The peer has received the GOAWAY: all requests that it sent before have arrived. */
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
