/**
 * The server side of one HTTP/2 connection (RFC 9113). It owns the socket and the frames of the connection as a whole;
 * requests are in `request-streams.ts`. It is optimized for many small requests: responses of one turn are sent in one
 * write, and repeated header blocks are decoded once.
 *
 * The memory and work that a peer can cause is bounded: streams, header bytes, CONTINUATION frames, unread output, and
 * frames that do not advance a request (`FloodLimit`). Not supported, and rejected or ignored as the protocol
 * specifies: server push, CONNECT, priorities, frames larger than the default.
 */
import type { Socket } from "node:net";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { FloodLimit } from "../flood-limit.ts";
import { longReadOf } from "../../long-reads.ts";
import type { RequestTurns, WaitingConnection } from "../../request-turns.ts";
import { ConnectionError, defaultWindowBytes, ErrorCode, maxWindowBytes, Setting } from "../frame.ts";
import { type ControlFrames, FrameDispatch } from "../frame-dispatch.ts";
import { FrameWriter } from "../frame-writer.ts";
import { grpcOnly, PrefaceReader } from "./preface-reader.ts";
import type { Http2Limits } from "./server-limits.ts";
import { Liveness } from "./liveness.ts";
import { type RequestHandler, RequestStreams } from "./request-streams.ts";
import { type ConnectionMemory, type ChargedConnection, openCallBytes } from "./connection-memory.ts";

/** Calls `run` with `flush` later. */
export type Defer = (run: (flush: () => void) => void, flush: () => void) => void;

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
  /** The memory budget of all connections of the server; absent: no bound. */
  readonly memory?: ConnectionMemory;
  /**
   * Schedules a flush of frames that are written while no input is processed. Default: after the pending promise jobs,
   * so that the responses to one Redis reply are sent together.
   */
  readonly defer?: Defer;
  /** The response to a client of HTTP/1, which states what is expected. Default: that of a gRPC server. */
  readonly http1Text?: string;
  /** Times the preface, pings and floods of frames. */
  readonly clock: Clock;
  /** Bounds the requests that begin in a turn of the event loop; absent: no bound. */
  readonly turns?: RequestTurns | undefined;
  /** As `WaitingConnection.client`; absent: that of all connections without one. */
  readonly client?: string | undefined;
  /** Called after a read of the socket while `heldBytes` is not 0. */
  readonly onHolding?: () => void;
  /** Called once, when the socket is closed. */
  readonly onClose: () => void;
  /**
   * Called with the error for which the connection is closed: `ConnectionError` for an error of the peer; any other is
   * internal.
   */
  readonly onError: (error: unknown) => void;
}

/**
 * The state of a connection.
 * - `open`: accepts requests. `drain` moves it to `draining`.
 * - `leaving`: GOAWAY was sent; requests are still accepted. `drain` moves it to `draining`.
 * - `draining`: GOAWAY was sent; requests that the peer sent before it arrived are still accepted. The reply to a PING
 *   moves it to `closing`.
 * - `closing`: accepts no new requests. The end of the last response ends the connection.
 * - `failed`: GOAWAY with an error was sent, or the socket is closed; further input is ignored. An error of the peer,
 *   an internal error, `closeForMemory` and the end of the socket move any state to this one.
 */
type Phase = "open" | "leaving" | "draining" | "closing" | "failed";

/** A shorter DATA frame that does not end its request counts for the flood limit. */
const smallFrameBytes = 256;

/** Time for the peer to read the last bytes, after this side has ended. */
const lastReadTimeoutMs = 60_000;

const afterJobs: Defer = (run, flush) => process.nextTick(run, flush);

const keepalivePing = Buffer.from("are u on", "latin1");
const drainPing = Buffer.from("draining", "latin1");

/** One connection of a client. `drain` ends it in order, `destroy` at once. */
export class ServerConnection<Head> implements ChargedConnection, WaitingConnection {
  readonly client: string;
  readonly #options: ConnectionOptions<Head>;
  readonly #writer: FrameWriter;
  readonly #frames: FrameDispatch;
  readonly #streams: RequestStreams<Head>;
  readonly #liveness: Liveness;
  readonly #longRead: number;
  #preface: PrefaceReader | undefined;
  #phase: Phase = "open";
  /** Whether the peer has received the first GOAWAY. */
  #isLeaveAcknowledged = false;
  /** Monotonic. */
  #idleSinceMs: number;
  #lastSeenStreamId = 0;
  /** Whether a part of a body waits to be read, until `takeTurn`. */
  #isReadLater = false;
  /** The time of the first check after this side has ended; monotonic. */
  #endedSinceMs: number | undefined;

  /** Takes ownership of the socket. */
  constructor(options: ConnectionOptions<Head>) {
    const { socket, handler, limits, clock, turns } = options;
    this.#options = options;
    this.client = options.client ?? "";
    this.#longRead = longReadOf(socket);
    this.#preface = new PrefaceReader(options.http1Text ?? grpcOnly);
    this.#idleSinceMs = clock.monotonicMs();
    const { defer = afterJobs } = options;
    this.#writer = new FrameWriter({
      socket,
      isTls: options.isTls,
      defer: (flush) => defer(this.#afterFlush, flush),
      onWritten: (flush) => this.#onWritten(flush),
    });
    const idleFrames = new FloodLimit("frames that do not advance a request", clock, 1_000, 100);
    this.#streams = new RequestStreams({
      writer: this.#writer,
      handler,
      limits,
      windows: limits,
      idleFrames,
      smallFrames: smallFramesOf(limits, clock) ?? idleFrames,
      smallFrameBytes: limits.smallFrames?.bytes ?? smallFrameBytes,
      resets: resetsOf(limits, clock),
      earlyResets: new FloodLimit("requests that are begun and not finished", clock, 200, 20),
      onIdle: () => this.#endIfClosing(),
      onWaiting: () => this.#updateMemory(),
    });
    this.#frames = new FrameDispatch({
      streams: this.#streams,
      control: this.#controlFrames(),
      writer: this.#writer,
      idleFrames,
      // A larger list can still be rejected with a response.
      maxBlockBytes: 2 * limits.maxHeaderListBytes,
      mayBegin: turns === undefined ? undefined : () => turns.mayBegin(),
    });
    this.#liveness = new Liveness(limits, clock.monotonicMs());
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("drain", () => {
      this.#updateMemory();
      if (!this.isWaiting) socket.resume();
    });
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#closed());
  }

  /** Bytes of an incomplete frame, of an incomplete header block, of undelivered bodies, and of requests that wait. */
  get heldBytes(): number {
    const waitingBytes = this.#frames.isHeld ? this.#options.socket.readableLength : 0;
    return this.#frames.heldBytes + this.#streams.heldBytes + waitingBytes;
  }

  /** Whether a request waits to begin or to go on, until `takeTurn`. */
  get isWaiting(): boolean {
    return this.#frames.isHeld || this.#isReadLater;
  }

  /** The number of the header block that has begun and not ended; undefined if there is none. */
  get openBlock(): number | undefined {
    // Its end may be among what waits.
    return this.isWaiting ? undefined : this.#frames.openBlock;
  }

  /** Checks for a silent peer. To be called about once a second. */
  check(nowMs: number): void {
    const isFailed = this.#phase === "failed";
    if (isFailed || this.#options.socket.writableEnded) {
      this.#endedSinceMs ??= nowMs;
      // The peer had a second to read the reason for a failure.
      if (isFailed || nowMs - this.#endedSinceMs >= lastReadTimeoutMs) this.destroy();
      return;
    }
    this.#checkIdle(nowMs);
    if (this.isWaiting) this.#liveness.sawInput = true;
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
      return;
    }
    const wasLeaving = this.#phase === "leaving";
    this.leave();
    if (this.#phase === "leaving") this.#phase = "draining";
    if (wasLeaving && this.#isLeaveAcknowledged) this.#close();
  }

  /** Asks the peer to send its next requests elsewhere (GOAWAY). The requests that it sends are still served. */
  leave(): void {
    if (this.#phase !== "open") return;
    this.#phase = "leaving";
    if (this.#preface === undefined) this.#announceLeave();
  }

  #announceLeave(): void {
    this.#writer.goAway(maxWindowBytes, ErrorCode.NoError, "");
    this.#writer.ping(drainPing, 0, false);
  }

  /** Closes the connection with GOAWAY and an error, after the written frames. */
  closeForFlood(reason: string): void {
    if (this.#phase !== "failed") this.#fail(new ConnectionError(ErrorCode.EnhanceYourCalm, reason));
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

  /** Drains a connection that has had no request for too long. */
  #checkIdle(nowMs: number): void {
    const { idleTimeoutMs } = this.#options.limits;
    if (idleTimeoutMs === undefined) return;
    if (this.#streams.active > 0 || this.#streams.lastStreamId !== this.#lastSeenStreamId) this.#idleSinceMs = nowMs;
    this.#lastSeenStreamId = this.#streams.lastStreamId;
    const idleMs = nowMs - this.#idleSinceMs;
    if (idleMs >= idleTimeoutMs + this.#options.limits.keepaliveTimeoutMs) this.destroy();
    else if (idleMs >= idleTimeoutMs) this.drain();
  }

  #onWritten(flush: number): void {
    try {
      this.#streams.written(flush);
      this.#streams.resumeWaiting();
    } catch (error) {
      this.#fail(error);
    }
  }

  readonly #afterFlush = (flush: () => void): void => {
    flush();
    this.#updateMemory();
  };

  /** Sends SETTINGS. Called after the client's preface, since clients of other protocols would not understand them. */
  #sendSettings(): void {
    const { limits } = this.#options;
    const settings: (readonly [number, number])[] = [
      [Setting.MaxConcurrentStreams, limits.maxConcurrentStreams],
      [Setting.InitialWindowSize, limits.streamWindowBytes],
      [Setting.MaxHeaderListSize, limits.maxHeaderListBytes],
    ];
    if (limits.allowsConnect === true) settings.push([Setting.EnableConnectProtocol, 1]);
    this.#writer.settings(settings);
    this.#writer.windowUpdate(0, limits.connectionWindowBytes - defaultWindowBytes);
  }

  #receive(chunk: Buffer): void {
    if (this.#phase === "failed") {
      return;
    }
    this.#liveness.sawInput = true;
    const { length } = chunk;
    this.#isReadLater = length >= this.#longRead && this.#options.turns?.mayReadOn(length) === false;
    this.#parse(chunk);
  }

  takeTurn(): void {
    const { socket } = this.#options;
    this.#isReadLater = false;
    if (this.#phase === "failed") return;
    if (this.#frames.isHeld) this.#parse(undefined);
    // Bytes that were read before the socket was paused are received by `#receive`.
    else if (!socket.writableNeedDrain) socket.read();
    if (!this.isWaiting && !socket.writableNeedDrain) socket.resume();
  }

  /** @param chunk undefined for the frames that wait. */
  #parse(chunk: Buffer | undefined): void {
    this.#writer.cork();
    try {
      if (chunk === undefined) this.#frames.readHeld();
      else this.#read(chunk);
      this.#boundWaiting();
    } catch (error) {
      this.#fail(error);
    }
    this.#writer.uncork();
    this.#updateMemory();
    const { socket, onHolding, turns } = this.#options;
    if (onHolding !== undefined && this.heldBytes > 0) onHolding();
    const { isWaiting } = this;
    if (isWaiting) turns?.wait(this);
    // Stops reading requests of a peer that does not read its responses, and what follows one that waits.
    if (isWaiting || socket.writableNeedDrain) socket.pause();
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
        if (this.#phase === "leaving") this.#announceLeave();
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
    if (memory === undefined) return;
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
    const { socket } = this.#options;
    if (socket.writableLength > 0) socket.destroy();
    else socket.end();
    this.#options.onError(error);
  }

  /** Ignores further input, also of the chunk that is being read. */
  #stop(): void {
    this.#phase = "failed";
    this.#frames.stop();
    this.#options.turns?.leave(this);
  }

  #closed(): void {
    this.#stop();
    this.#streams.cancelAll();
    this.#options.memory?.update(this, 0);
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
        // GOAWAY is about streams that the server opened, and it opens none. The peer ends the connection itself.
      },
    };
  }

  /** Handles the acknowledgement of the PING after GOAWAY: all requests that the peer sent before it have arrived. */
  #pong(buffer: Buffer, start: number): void {
    if (drainPing.compare(buffer, start, start + drainPing.length) !== 0) return;
    this.#isLeaveAcknowledged = true;
    if (this.#phase === "draining") this.#close();
  }

  /** Accepts no more requests. */
  #close(): void {
    this.#phase = "closing";
    this.#streams.isClosed = true;
    this.#writer.goAway(this.#streams.lastStreamId, ErrorCode.NoError, "");
    if (this.#streams.active === 0) {
      this.#endIfClosing();
    }
  }
}

function smallFramesOf({ smallFrames }: Http2Limits, clock: Clock): FloodLimit | undefined {
  if (smallFrames === undefined) return undefined;
  return new FloodLimit("small DATA frames", clock, smallFrames.burst, smallFrames.perSecond);
}

function resetsOf({ resets }: Http2Limits, clock: Clock): FloodLimit | undefined {
  return resets === undefined
    ? undefined
    : new FloodLimit("requests that are reset", clock, resets.burst, resets.perSecond);
}
