/**
 * The client's side of one HTTP/2 connection (RFC 9113), for many small unary calls: owns the socket and the frames that
 * belong to the connection as a whole; calls are `call-streams.ts`. Everything that one turn of the event loop has to
 * send leaves in one write, and a header block that came before is not decoded again.
 *
 * What the peer can make us hold or do is bounded: header bytes, CONTINUATION frames, the answer of a call, calls that it
 * does not read, and frames that move no call (`FloodGuard`). A peer that breaks the protocol loses the connection.
 */
import type { Socket } from "node:net";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { BlockAssembly } from "@gatewayproxy/runtime/http2/block-assembly";
import { demand } from "@gatewayproxy/runtime/http2/demand";
import { FloodGuard } from "@gatewayproxy/runtime/http2/flood-guard";
import {
  ConnectionError,
  defaultWindowBytes,
  ErrorCode,
  FrameReader,
  Setting,
} from "@gatewayproxy/runtime/http2/frame";
import { FrameDispatch, type FrameHandler } from "@gatewayproxy/runtime/http2/frame-dispatch";
import { FrameWriter } from "@gatewayproxy/runtime/http2/frame-writer";
import type { PeerSettings } from "@gatewayproxy/runtime/http2/settings";
import type { Call } from "./call.ts";
import { CallHeads } from "./call-heads.ts";
import { CallStreams } from "./call-streams.ts";
import { type ClientLimits, maxHeaderListBytes } from "./client-limits.ts";

export interface ClientConnectionOptions {
  /** Connected or about to be; what it reads goes to `receive`. */
  readonly socket: Socket;
  readonly scheme: "http" | "https";
  readonly authority: string;
  readonly limits: ClientLimits;
  readonly clock: Clock;
  /** The peer takes calls from now on. */
  readonly onOpen: () => void;
  /** It takes no more calls, called once: it said so, or it is gone; `reason` is for the log. */
  readonly onLeave: (reason: string) => void;
  /** Something failed inside the gateway while an answer was read. */
  readonly onFault?: ((error: unknown) => void) | undefined;
  /** The socket is gone. */
  readonly onClose: () => void;
}

/**
 * - `opening`: until the peer's settings have come; calls wait.
 * - `open`: takes calls.
 * - `leaving`: takes none; ends with the last that is under way.
 * - `closed`: nothing that comes matters any more.
 */
type Phase = "opening" | "open" | "leaving" | "closed";

const livenessPing = Buffer.from("alive?\0\0", "latin1");

export class ClientConnection {
  readonly #options: ClientConnectionOptions;
  readonly #writer: FrameWriter;
  readonly #reader: FrameReader;
  readonly #streams: CallStreams;
  #phase: Phase = "opening";
  #hasLeft = false;
  /** Runs while the peer owes an answer to a ping. */
  #pingTimer: Timer | undefined;

  /** Takes the socket over. */
  constructor(options: ClientConnectionOptions) {
    const { socket, limits, clock } = options;
    this.#options = options;
    // Once in a turn of the event loop: the requests that came together ask together.
    this.#writer = new FrameWriter(socket, options.scheme === "https", (flush) => setImmediate(flush));
    const idleFrames = new FloodGuard("frames that move no call", clock, 10_000, 1_000);
    this.#streams = new CallStreams({
      writer: this.#writer,
      heads: new CallHeads(options.scheme, options.authority),
      limits,
      clock,
      idleFrames,
      onIdle: () => this.#endIfLeaving(),
      onUsedUp: () => this.leave("the connection has carried as many calls as it can"),
      onTimeout: () => this.#askWhetherAlive(),
    });
    const blocks = new BlockAssembly(maxHeaderListBytes, (id, endStream, buffer, start, end) =>
      this.#streams.headerBlock(id, endStream, buffer, start, end),
    );
    const frames = new FrameDispatch({ handler: this.#frameHandler(), writer: this.#writer, blocks, idleFrames });
    this.#reader = new FrameReader((type, flags, id, buffer, start, end) => {
      // Whoever heard of an answer in this very chunk may have closed the connection.
      if (this.#phase !== "closed") frames.take(type, flags, id, buffer, start, end);
    });
    socket.on("error", (error) => this.destroy(error.message));
    socket.on("end", () => this.destroy("the service has closed the connection"));
    socket.on("close", () => {
      this.destroy("the connection was lost");
      options.onClose();
    });
  }

  /** Says hello; to be called when the socket is connected. */
  greet(): void {
    const { limits } = this.#options;
    this.#writer.preface();
    this.#writer.settings([
      [Setting.EnablePush, 0],
      [Setting.InitialWindowSize, limits.streamWindowBytes],
      [Setting.MaxHeaderListSize, maxHeaderListBytes],
    ]);
    this.#writer.windowUpdate(0, limits.connectionWindowBytes - defaultWindowBytes);
  }

  /** Sends a call as soon as the peer takes one. */
  start(call: Call): void {
    if (this.#hasLeft) call.giveBack("the connection is closing");
    else this.#streams.start(call);
  }

  /** Takes no more calls; those under way finish, those that wait are given back. */
  leave(reason: string): void {
    if (this.#phase !== "closed") this.#phase = "leaving";
    if (!this.#hasLeft) {
      this.#hasLeft = true;
      this.#options.onLeave(reason);
    }
    this.#streams.giveWaitingBack(reason);
    this.#endIfLeaving();
  }

  /** Ends the connection at once, and every call on it. */
  destroy(reason: string): void {
    if (this.#phase === "closed") return;
    this.#phase = "closed";
    this.#pingTimer?.cancel();
    this.#options.socket.destroy();
    this.leave(reason);
    this.#streams.breakOff(reason);
  }

  /** Takes what the socket has read; it is gone after the call. */
  receive(chunk: Buffer): void {
    if (this.#phase === "closed") return;
    this.#pingTimer?.cancel();
    this.#pingTimer = undefined;
    this.#writer.hold();
    try {
      this.#reader.read(chunk);
    } catch (error) {
      if (error instanceof ConnectionError) this.#fail(error);
      else this.#fault(error);
    } finally {
      this.#writer.release();
    }
  }

  /** Not the service's: its calls end, and nothing else. */
  #fault(error: unknown): void {
    this.#options.onFault?.(error);
    this.destroy("the gateway has failed to read an answer");
  }

  #fail({ code, message }: ConnectionError): void {
    this.#writer.goAway(0, code, message);
    this.#writer.flush();
    this.destroy(`the service breaks HTTP/2: ${message}`);
  }

  #endIfLeaving(): void {
    if (this.#phase === "leaving" && this.#streams.active === 0) this.destroy("the connection is closed");
  }

  /** A call got no answer: a peer that is slow still answers a ping, one that is gone does not. */
  #askWhetherAlive(): void {
    if (this.#phase !== "open" || this.#pingTimer !== undefined) return;
    const { clock, limits } = this.#options;
    this.#writer.ping(livenessPing, 0, false);
    this.#pingTimer = clock.setTimer(limits.pingTimeoutMs, () => this.destroy("the service does not answer a ping"));
  }

  #frameHandler(): FrameHandler {
    const streams = this.#streams;
    return {
      data: (flags, id, buffer, start, end) => streams.data(flags, id, buffer, start, end),
      rstStream: (id, code) => streams.rstStream(id, code),
      windowUpdate: (id, increment) => streams.windowUpdate(id, increment),
      settings: (settings) => this.#settings(settings),
      pong: () => {
        // Whatever comes proves that the peer is there.
      },
      goAway: (lastStreamId, code) => this.#goAway(lastStreamId, code),
    };
  }

  #settings(settings: PeerSettings): void {
    demand(!settings.enablesPush, "SETTINGS: a server cannot enable push");
    const isFirst = this.#phase === "opening";
    if (isFirst) this.#phase = "open";
    this.#streams.apply(settings);
    if (isFirst) this.#options.onOpen();
  }

  /** The peer leaves: calls that it has not begun go elsewhere, the others finish here (§6.8). */
  #goAway(lastStreamId: number, code: number): void {
    this.leave(code === ErrorCode.NoError ? "the service is leaving" : `the service left with error code ${code}`);
    this.#streams.giveBackAfter(lastStreamId);
  }
}
