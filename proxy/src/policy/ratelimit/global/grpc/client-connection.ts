/**
 * The client side of one HTTP/2 connection (RFC 9113) for many small unary calls. Owns the socket and handles the
 * frames of the connection as a whole; `call-streams.ts` handles calls. All bytes of one turn of the event loop are
 * sent in one write, and repeated header blocks are decoded once.
 *
 * The memory and work that the peer can cause is bounded: header bytes, CONTINUATION frames, the size of a response,
 * calls that it does not read, and frames that advance no call (`FloodLimit`). A peer that violates the protocol loses
 * the connection.
 */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { HeaderBlockAssembler } from "@gatewayproxy/http/http2/header-block-assembler";
import { assertProtocol } from "@gatewayproxy/http/http2/assert-protocol";
import { FloodLimit } from "@gatewayproxy/http/http2/flood-limit";
import { ConnectionError, defaultWindowBytes, ErrorCode, FrameReader, Setting } from "@gatewayproxy/http/http2/frame";
import { FrameDispatch, type FrameHandler } from "@gatewayproxy/http/http2/frame-dispatch";
import { FrameWriter } from "@gatewayproxy/http/http2/frame-writer";
import type { PeerSettings } from "@gatewayproxy/http/http2/settings";
import type { Call } from "./call.ts";
import { CallHeads } from "./call-heads.ts";
import { CallStreams } from "./call-streams.ts";
import { type ClientLimits, maxHeaderListBytes } from "./client-limits.ts";

/** The socket of a connection, and the receivers of its changes. */
export interface ClientConnectionOptions {
  /** A socket that is connected or connecting; its owner passes received bytes to `receive`. */
  readonly socket: Socket;
  /** The `:scheme` of calls: `https` with TLS. */
  readonly scheme: "http" | "https";
  /** The `:authority` of calls. */
  readonly authority: string;
  /** The windows, and the bounds for unsent bytes and pings. */
  readonly limits: ClientLimits;
  /** Times pings and the deadlines of calls. */
  readonly clock: Clock;
  /** The peer's settings have arrived: it accepts calls. */
  readonly onOpen: () => void;
  /** The connection accepts no more calls, by GOAWAY or since it is closed. Called once; `reason` is for the log. */
  readonly onDrain: (reason: string) => void;
  /** Called when the gateway fails internally while it reads a response. */
  readonly onError?: ((error: unknown) => void) | undefined;
  /** The socket is closed. */
  readonly onClose: () => void;
}

/**
 * The state of a connection.
 * - `opening`: waits for the peer's SETTINGS, which move it to `open`. Calls wait.
 * - `open`: accepts calls.
 * - `draining`: accepts no calls. GOAWAY, `drain` and the last stream identifier move the states above here. The end of
 *   the last call in progress moves it to `closed`.
 * - `closed`: ignores everything. The end of the socket, a violation of HTTP/2 and `destroy` move any state here.
 */
type Phase = "opening" | "open" | "draining" | "closed";

const livenessPing = Buffer.from("alive?\0\0", "latin1");

/** A connection to an endpoint of a rate limit service. `sendPreface` begins, `drain` and `destroy` end it. */
export class ClientConnection {
  readonly #options: ClientConnectionOptions;
  readonly #writer: FrameWriter;
  readonly #reader: FrameReader;
  readonly #streams: CallStreams;
  #phase: Phase = "opening";
  #hasReportedDrain = false;
  /** Runs until the peer acknowledges a ping. */
  #pingTimer: Timer | undefined;

  /** Takes ownership of the socket. */
  constructor(options: ClientConnectionOptions) {
    const { socket, limits, clock } = options;
    this.#options = options;
    // Flushes once in a turn of the event loop: concurrent requests share a write.
    this.#writer = new FrameWriter(socket, options.scheme === "https", (flush) => setImmediate(flush));
    const idleFrames = new FloodLimit("frames that advance no call", clock, 10_000, 1_000);
    this.#streams = new CallStreams({
      writer: this.#writer,
      heads: new CallHeads(options.scheme, options.authority),
      limits,
      clock,
      idleFrames,
      onIdle: () => this.#closeIfDrained(),
      onStreamIdsExhausted: () => this.drain("the stream identifiers of the connection are used up"),
      onTimeout: () => this.#checkLiveness(),
    });
    const blocks = new HeaderBlockAssembler(maxHeaderListBytes, (id, endStream, buffer, start, end) =>
      this.#streams.headerBlock(id, endStream, buffer, start, end),
    );
    const frames = new FrameDispatch({ handler: this.#frameHandler(), writer: this.#writer, blocks, idleFrames });
    this.#reader = new FrameReader((type, flags, id, buffer, start, end) => {
      // The receiver of a response in this same chunk may have closed the connection.
      if (this.#phase !== "closed") frames.dispatch(type, flags, id, buffer, start, end);
    });
    socket.on("error", (error) => this.destroy(error.message));
    socket.on("end", () => this.destroy("the service has closed the connection"));
    socket.on("close", () => {
      this.destroy("the connection was lost");
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
      [Setting.MaxHeaderListSize, maxHeaderListBytes],
    ]);
    this.#writer.windowUpdate(0, limits.connectionWindowBytes - defaultWindowBytes);
  }

  /** Sends a call, as soon as the peer accepts one. */
  start(call: Call): void {
    if (this.#hasReportedDrain) call.returnUnprocessed("the connection is closing");
    else this.#streams.start(call);
  }

  /** Accepts no more calls. Those in progress finish, those that wait are returned unprocessed. */
  drain(reason: string): void {
    if (this.#phase !== "closed") this.#phase = "draining";
    if (!this.#hasReportedDrain) {
      this.#hasReportedDrain = true;
      this.#options.onDrain(reason);
    }
    this.#streams.returnWaiting(reason);
    this.#closeIfDrained();
  }

  /** Closes the connection at once, and ends every call on it. */
  destroy(reason: string): void {
    if (this.#phase === "closed") return;
    this.#phase = "closed";
    this.#pingTimer?.cancel();
    this.#options.socket.destroy();
    this.drain(reason);
    this.#streams.connectionLost(reason);
  }

  /** Handles received bytes. `chunk` is valid only during this call. */
  receive(chunk: Buffer): void {
    if (this.#phase === "closed") return;
    this.#pingTimer?.cancel();
    this.#pingTimer = undefined;
    this.#writer.cork();
    try {
      this.#reader.read(chunk);
    } catch (error) {
      if (error instanceof ConnectionError) this.#fail(error);
      else this.#internalError(error);
    } finally {
      this.#writer.uncork();
    }
  }

  /** An error of the gateway, not of the service: the calls of this connection end. */
  #internalError(error: unknown): void {
    this.#options.onError?.(error);
    this.destroy("the gateway has failed to read a response");
  }

  #fail({ code, message }: ConnectionError): void {
    this.#writer.goAway(0, code, message);
    this.#writer.flush();
    this.destroy(`the service violates HTTP/2: ${message}`);
  }

  #closeIfDrained(): void {
    if (this.#phase === "draining" && this.#streams.active === 0) this.destroy("the connection is closed");
  }

  /** Pings after a call timed out: a slow peer still acknowledges it. */
  #checkLiveness(): void {
    if (this.#phase !== "open" || this.#pingTimer !== undefined) return;
    const { clock, limits } = this.#options;
    this.#writer.ping(livenessPing, 0, false);
    this.#pingTimer = clock.setTimer(limits.pingTimeoutMs, () =>
      this.destroy("the service does not acknowledge a ping"),
    );
  }

  #frameHandler(): FrameHandler {
    const streams = this.#streams;
    return {
      data: (flags, id, buffer, start, end) => streams.data(flags, id, buffer, start, end),
      rstStream: (id, code) => streams.rstStream(id, code),
      windowUpdate: (id, increment) => streams.windowUpdate(id, increment),
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
    if (isFirst) this.#options.onOpen();
  }

  /** Handles GOAWAY: calls that the peer has not processed go elsewhere, the others finish here (§6.8). */
  #goAway(lastStreamId: number, code: number): void {
    this.drain(
      code === ErrorCode.NoError
        ? "the service is closing the connection"
        : `the service closed the connection with error code ${code}`,
    );
    this.#streams.returnUnprocessed(lastStreamId);
  }
}
