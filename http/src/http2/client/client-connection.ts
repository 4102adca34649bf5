/**
 * The client side of one HTTP/2 connection (RFC 9113). Owns the socket and handles the frames of the connection as a
 * whole; `client-streams.ts` handles requests. All bytes of one turn of the event loop are sent in one write, and
 * repeated header blocks are decoded once.
 *
 * The memory and work that the peer can cause is bounded: header bytes, CONTINUATION frames, requests that it does not
 * read, and frames that advance no stream (`FloodLimit`). A peer that violates the protocol loses the connection.
 */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { sweepMs } from "../../sweep.ts";
import { assertProtocol } from "../assert-protocol.ts";
import { FloodLimit } from "../flood-limit.ts";
import { ConnectionError, defaultWindowBytes, ErrorCode, Setting } from "../frame.ts";
import { type ControlFrames, FrameDispatch } from "../frame-dispatch.ts";
import { FrameWriter } from "../frame-writer.ts";
import type { PeerSettings } from "../settings.ts";
import type { ClientLimits } from "./client-limits.ts";
import type { ClientStream } from "./client-stream.ts";
import { ClientStreams } from "./client-streams.ts";
import { ResetBudget } from "./reset-budget.ts";
import type { ResponseHead } from "./response-block.ts";

/** The socket of a connection, and the receivers of its changes. */
export interface ClientConnectionOptions<Head> {
  /** A socket that is connected or connecting; its owner passes received bytes to `receive`. */
  readonly socket: Socket;
  /** Whether `socket` is a TLS socket, which keeps a written buffer after the write. */
  readonly isTls: boolean;
  /** Extracts the needed data from a head or trailers. It must be pure, because it is called once for equal blocks. */
  readonly readHead: (head: ResponseHead) => Head;
  /** The windows, and the bounds for unsent bytes and pings. */
  readonly limits: ClientLimits;
  /** Times pings. */
  readonly clock: Clock;
  /** Called when the peer's settings have arrived, so that it accepts requests. */
  readonly onOpen: () => void;
  /**
   * Called with the maximum number of concurrent streams that the peer accepts, before `onOpen` and when it changes.
   * Infinity: no maximum.
   */
  readonly onMaxStreams?: ((max: number) => void) | undefined;
  /**
   * Called once, when the connection accepts no more requests, by GOAWAY or because it closes. `reason` is for the log.
   */
  readonly onDrain: (reason: string) => void;
  /** Called for an internal error of this side in reading a response. */
  readonly onError?: ((error: unknown) => void) | undefined;
  /** Called when the socket is closed. */
  readonly onClose: () => void;
}

/**
 * The state of a connection.
 * - `opening`: waits for the peer's SETTINGS, which move it to `open`. Requests wait.
 * - `open`: accepts requests.
 * - `draining`: accepts no requests. GOAWAY, `drain` and the last stream identifier move the states above to this one.
 *   The end of the last stream moves it to `closed`.
 * - `closed`: ignores all input. The end of the socket, a violation of HTTP/2 and `destroy` move any state to this one.
 */
type Phase = "opening" | "open" | "draining" | "closed";

/** Time for the peer to read the reason why the connection ends. */
const lingerMs = 1_000;
/** Pings without a part of a response between. */
const maxPings = 2;
const livenessPing = Buffer.from("alive?\0\0", "latin1");

/** A connection to a server. `sendPreface` begins, `drain` and `destroy` end it. */
export class ClientConnection<Head> {
  readonly #options: ClientConnectionOptions<Head>;
  readonly #writer: FrameWriter;
  readonly #frames: FrameDispatch;
  readonly #streams: ClientStreams<Head>;
  #phase: Phase = "opening";
  #hasReportedDrain = false;
  /** Of the last GOAWAY of the peer. */
  #goAwayCode: number | undefined;
  /** Runs until the peer acknowledges a ping. */
  #pingTimer: Timer | undefined;
  /** Runs until the peer has closed a connection that this side has ended. */
  #lingerTimer: Timer | undefined;
  /** Sweeps since the last received byte. */
  #silentSweeps = 0;
  /** The number of received parts of responses at the last ping. */
  #receivedAtPing = -1;
  /** Pings since the last received part of a response. */
  #pings = 0;

  /** Takes ownership of the socket. */
  constructor(options: ClientConnectionOptions<Head>) {
    const { socket, limits, clock } = options;
    this.#options = options;
    // Flushes once in a turn of the event loop: concurrent requests share a write.
    this.#writer = new FrameWriter({
      socket,
      isTls: options.isTls,
      defer: (flush) => setImmediate(flush),
      onWritten: () => this.#streams.resumeWaiting(),
    });
    const idleFrames = new FloodLimit("frames that advance no stream", clock, 10_000, 1_000);
    this.#streams = new ClientStreams({
      writer: this.#writer,
      readHead: options.readHead,
      limits,
      windows: limits,
      idleFrames,
      smallFrames: idleFrames,
      smallFrameBytes: limits.smallFrameBytes,
      onIdle: () => this.#closeIfDrained(),
      onStreamIdsExhausted: () => this.drain("the stream identifiers of the connection are used up"),
      onTimeout: () => this.#ping(),
      resets: limits.resets && new ResetBudget(limits.resets, clock),
      onManyResets: () => this.drain("many requests on the connection were reset"),
    });
    this.#frames = new FrameDispatch({
      streams: this.#streams,
      control: this.#controlFrames(),
      writer: this.#writer,
      idleFrames,
      // A larger list fails its stream only, because the connection carries the requests of others.
      maxBlockBytes: 4 * limits.maxHeaderListBytes,
    });
    socket.on("error", (error) => this.destroy(error.message));
    socket.on("end", () => this.destroy("the server has closed the connection"));
    socket.on("close", () => {
      this.destroy("the connection was lost");
      this.#lingerTimer?.cancel();
      options.onClose();
    });
  }

  /** Sends the connection preface. Must be called when the socket is connected. */
  sendPreface(): void {
    const { limits } = this.#options;
    this.#writer.preface();
    this.#writer.settings([
      [Setting.EnablePush, 0],
      [Setting.InitialWindowSize, limits.streamWindowBytes],
      [Setting.MaxHeaderListSize, limits.maxHeaderListBytes],
    ]);
    this.#writer.windowUpdate(0, limits.connectionWindowBytes - defaultWindowBytes);
  }

  /**
   * Whether requests can be sent now. They cannot while a ping is not acknowledged, since the peer may have
   * disappeared.
   */
  get isAvailable(): boolean {
    return this.#phase === "open" && this.#pingTimer === undefined;
  }

  /** The largest window that the peer has given to all streams together. */
  get largestWindowBytes(): number {
    return this.#streams.largestWindowBytes;
  }

  /** Whether an upload may have to wait for others. */
  get isCrowded(): boolean {
    return this.#streams.isCrowded;
  }

  /** Whether the peer accepts extended CONNECT (RFC 8441 §3). */
  get allowsConnect(): boolean {
    return this.#streams.allowsConnect;
  }

  /** Ends requests without progress, and pings a peer that is silent while it has requests. Called every `sweepMs`. */
  sweep(): void {
    if (this.#phase === "opening" || this.#phase === "closed") return;
    this.#streams.sweep();
    const isSilent = this.#streams.active > 0 && ++this.#silentSweeps * sweepMs >= this.#options.limits.silenceMs;
    // Pings once until the peer sends a part of a response, so that one is left for a timeout.
    if (isSilent && this.#receivedAtPing !== this.#streams.received) this.#ping();
  }

  /** Sends a request when the peer accepts one. */
  start(stream: ClientStream<Head>): void {
    if (this.#hasReportedDrain) stream.unprocessed("the connection is closing");
    else this.#streams.start(stream);
  }

  /** Accepts no more requests. Those in progress finish, those that wait are returned unprocessed. */
  drain(reason: string): void {
    if (this.#phase !== "closed") this.#phase = "draining";
    if (!this.#hasReportedDrain) {
      this.#hasReportedDrain = true;
      this.#options.onDrain(reason);
    }
    this.#streams.returnQueued(reason);
    this.#closeIfDrained();
  }

  /** Closes the connection at once, and ends every stream on it. */
  destroy(reason: string): void {
    if (this.#phase === "closed") return;
    this.#options.socket.destroy();
    this.#close(reason);
  }

  #close(reason: string): void {
    this.#phase = "closed";
    // The receiver of a response may close the connection while its chunk is read.
    this.#frames.stop();
    this.#pingTimer?.cancel();
    this.drain(reason);
    this.#streams.connectionLost(reason, this.#goAwayCode);
  }

  /** Handles received bytes. `chunk` is valid only during this call, unless the streams keep parts of it. */
  receive(chunk: Buffer): void {
    if (this.#phase === "closed") return;
    this.#silentSweeps = 0;
    this.#pingTimer?.cancel();
    this.#pingTimer = undefined;
    this.#writer.cork();
    try {
      this.#frames.read(chunk);
      this.#boundWaiting();
    } catch (error) {
      if (error instanceof ConnectionError) this.#fail(error);
      else this.#internalError(error);
    } finally {
      this.#writer.uncork();
    }
  }

  #boundWaiting(): void {
    const { waitingBytes } = this.#writer;
    if (waitingBytes > 2 * this.#options.limits.maxWaitingBytes) {
      throw new ConnectionError(ErrorCode.EnhanceYourCalm, `${waitingBytes} bytes are not read`);
    }
  }

  /** Ends the connection with all its streams, because of an error of this side. */
  #internalError(error: unknown): void {
    this.#options.onError?.(error);
    this.destroy(`this side has failed to read a response: ${String(error)}`);
  }

  #fail({ code, message }: ConnectionError): void {
    this.#leave(code, message, `the server violates HTTP/2: ${message}`);
  }

  #closeIfDrained(): void {
    if (this.#phase !== "draining" || this.#streams.active > 0) return;
    this.#leave(ErrorCode.NoError, "", "the connection is closed");
  }

  /** Sends GOAWAY (§6.8), and closes the connection. */
  #leave(code: ErrorCode, message: string, reason: string): void {
    const { socket, clock } = this.#options;
    const isRead = socket.writableLength === 0;
    this.#writer.goAway(0, code, message);
    this.#writer.flush();
    if (isRead) {
      // Unread bytes of the peer would reset the connection before it has read the GOAWAY.
      socket.end();
      this.#lingerTimer = clock.setTimer(lingerMs, () => socket.destroy());
    } else {
      socket.destroy();
    }
    this.#close(reason);
  }

  /**
   * Checks that the peer is alive, such as after a timeout of a request. A peer that is only slow acknowledges the
   * ping. Servers of gRPC end a connection at the third one without a response between.
   */
  #ping(): void {
    if (this.#phase === "closed" || this.#pingTimer !== undefined) return;
    if (this.#receivedAtPing !== this.#streams.received) this.#pings = 0;
    this.#receivedAtPing = this.#streams.received;
    if (++this.#pings > maxPings) {
      this.drain("the server has not responded for long");
      return;
    }
    const { clock, limits } = this.#options;
    this.#writer.ping(livenessPing, 0, false);
    this.#pingTimer = clock.setTimer(limits.pingTimeoutMs, () =>
      this.destroy("the server does not acknowledge a ping"),
    );
  }

  #controlFrames(): ControlFrames {
    return {
      settings: (settings) => this.#settings(settings),
      pong: () => {
        // Any received byte shows that the peer is alive.
      },
      goAway: (lastStreamId, code) => this.#goAway(lastStreamId, code),
    };
  }

  #settings(settings: PeerSettings): void {
    assertProtocol(!settings.enablesPush, "SETTINGS: a server cannot enable push");
    const isFirst = this.#phase === "opening";
    if (isFirst) this.#phase = "open";
    this.#streams.apply(settings);
    if (isFirst || settings.maxConcurrentStreams !== undefined) {
      this.#options.onMaxStreams?.(this.#streams.maxConcurrentStreams);
    }
    if (isFirst) this.#options.onOpen();
  }

  /**
   * Handles GOAWAY: returns the requests that the peer has not processed; the others finish on this connection (§6.8).
   */
  #goAway(lastStreamId: number, code: number): void {
    this.#goAwayCode = code;
    this.drain(
      code === ErrorCode.NoError
        ? "the server is closing the connection"
        : `the server closed the connection with error code ${code}`,
    );
    this.#streams.returnUnprocessed(lastStreamId);
  }
}
