/**
 * The calls of one connection: opens, sends and ends their streams (RFC 9113 §5, §6.1, §6.4, §6.9), does flow control
 * in both directions, and queues calls until the peer accepts them.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { assertProtocol, paddingBytes } from "@gatewayproxy/http/http2/assert-protocol";
import type { FloodLimit } from "@gatewayproxy/http/http2/flood-limit";
import {
  ConnectionError,
  defaultWindowBytes,
  ErrorCode,
  Flag,
  maxFramePayloadBytes,
  maxWindowBytes,
} from "@gatewayproxy/http/http2/frame";
import type { FrameWriter } from "@gatewayproxy/http/http2/frame-writer";
import { HeaderBlockReader } from "@gatewayproxy/http/http2/header-block-reader";
import type { PeerSettings } from "@gatewayproxy/http/http2/settings";
import { StreamTable } from "@gatewayproxy/http/http2/stream-table";
import { type Call, type CallHost, type Ending, maxResponseBytes } from "./call.ts";
import type { CallHeads } from "./call-heads.ts";
import { type ClientLimits, maxHeaderListBytes } from "./client-limits.ts";
import { readResponseBlock, type ResponseBlock } from "./response-block.ts";

/** The connection that carries the calls, and its bounds. */
export interface CallStreamsOptions {
  /** Receives the frames to send. */
  readonly writer: FrameWriter;
  /** Encodes the heads of calls. */
  readonly heads: CallHeads;
  /** The windows, and the bound for unsent bytes. */
  readonly limits: ClientLimits;
  /** Computes the time that is left for a call when its head is sent (`grpc-timeout`). */
  readonly clock: Clock;
  /** Bounds frames that advance no call. */
  readonly idleFrames: FloodLimit;
  /** The last call in progress has ended. */
  readonly onIdle: () => void;
  /** All stream identifiers are used up. */
  readonly onStreamIdsExhausted: () => void;
  /** A call in progress has timed out. */
  readonly onTimeout: () => void;
}

/**
 * Further frames without progress that each call permits: PING and WINDOW_UPDATE come with it, a late response after
 * it.
 */
const idleFramesPerCall = 8;
/** Smaller DATA frames count as frames without progress, unless they are the first or the last. */
const smallPieceBytes = 256;

/** The calls of one connection. Methods that handle frames throw `ConnectionError` if the peer violates HTTP/2. */
export class CallStreams implements CallHost {
  readonly #options: CallStreamsOptions;
  readonly #blocks = new HeaderBlockReader<ResponseBlock>(maxHeaderListBytes, readResponseBlock);
  readonly #streams = new StreamTable<Call>();
  /**
   * Calls without a stream, in order: before the peer's settings arrive, and while the peer accepts no more streams.
   */
  readonly #waiting = new Set<Call>();
  /** Calls whose message is blocked by flow control, in order. */
  readonly #blocked = new Set<Call>();
  #hasSettings = false;
  #nextStreamId = 1;
  #maxConcurrentStreams = Infinity;
  #peerInitialWindowBytes = defaultWindowBytes;
  #sendWindowBytes = defaultWindowBytes;
  #receiveWindowBytes: number;

  constructor(options: CallStreamsOptions) {
    this.#options = options;
    this.#receiveWindowBytes = options.limits.connectionWindowBytes;
  }

  /** The number of calls with a stream. */
  get active(): number {
    return this.#streams.size;
  }

  /** Sends the call, now or when a stream is available. */
  start(call: Call): void {
    const { writer, limits } = this.#options;
    if (writer.waitingBytes > limits.maxWaitingBytes) {
      call.returnUnprocessed("the service does not read its calls");
      return;
    }
    call.host = this;
    if (this.#canOpen) this.#open(call);
    else this.#waiting.add(call);
  }

  get #canOpen(): boolean {
    return this.#hasSettings && this.#streams.size < this.#maxConcurrentStreams;
  }

  #open(call: Call): void {
    const { writer, heads, limits, clock } = this.#options;
    call.id = this.#nextStreamId;
    call.sendWindowBytes = this.#peerInitialWindowBytes;
    call.receiveWindowBytes = limits.streamWindowBytes;
    this.#nextStreamId += 2;
    this.#streams.add(call);
    const remainingMs = Math.ceil(call.pending.deadlineMs - clock.monotonicMs());
    writer.headers(call.id, heads.blockOf(call.pending.path, remainingMs), false);
    if (!this.#sendBody(call)) this.#blocked.add(call);
    if (this.#nextStreamId > limits.maxStreamId) this.#options.onStreamIdsExhausted();
  }

  /**
   * Sends as much of a call's message as the windows allow.
   *
   * @returns whether all of it is sent.
   */
  #sendBody(call: Call): boolean {
    const { body } = call;
    while (call.sentBytes < body.length) {
      const length = Math.min(
        body.length - call.sentBytes,
        maxFramePayloadBytes,
        call.sendWindowBytes,
        this.#sendWindowBytes,
      );
      if (length <= 0) return false;
      const end = call.sentBytes + length;
      this.#options.writer.data(call.id, body, call.sentBytes, end, end === body.length);
      call.sentBytes = end;
      call.sendWindowBytes -= length;
      this.#sendWindowBytes -= length;
    }
    return true;
  }

  #sendBlocked(): void {
    for (const call of this.#blocked) if (this.#sendBody(call)) this.#blocked.delete(call);
  }

  #startWaiting(): void {
    for (const call of this.#waiting) {
      if (!this.#canOpen) return;
      this.#waiting.delete(call);
      this.#open(call);
    }
  }

  /** Removes the stream of a call that has ended. */
  ended(call: Call, ending: Ending): void {
    this.#waiting.delete(call);
    this.#blocked.delete(call);
    if (this.#streams.get(call.id) !== call) return;
    this.#streams.delete(call.id);
    this.#options.idleFrames.replenish(idleFramesPerCall);
    if (ending === "timedOut") {
      this.#options.writer.rstStream(call.id, ErrorCode.Cancel);
      this.#options.onTimeout();
    }
    this.#startWaiting();
    if (this.#streams.size === 0) this.#options.onIdle();
  }

  /** Applies the peer's settings. */
  apply({ initialWindowBytes, maxConcurrentStreams }: PeerSettings): void {
    this.#hasSettings = true;
    this.#maxConcurrentStreams = maxConcurrentStreams ?? this.#maxConcurrentStreams;
    if (initialWindowBytes !== undefined) this.#changeInitialWindow(initialWindowBytes);
    this.#startWaiting();
  }

  /** Adjusts the windows of open streams (§6.9.2). */
  #changeInitialWindow(bytes: number): void {
    const change = bytes - this.#peerInitialWindowBytes;
    this.#peerInitialWindowBytes = bytes;
    for (const call of this.#streams.all()) this.#growWindow(call, change);
    this.#sendBlocked();
  }

  #growWindow(call: Call, bytes: number): void {
    call.sendWindowBytes += bytes;
    if (call.sendWindowBytes > maxWindowBytes) {
      throw new ConnectionError(ErrorCode.FlowControlError, "a stream's window is too large");
    }
  }

  /** Handles a whole header block: the head or the trailers of a response. */
  headerBlock(id: number, endStream: boolean, buffer: Buffer, start: number, end: number): void {
    // Blocks of ended calls are decoded too, to keep the HPACK table in sync.
    const block = this.#blocks.read(buffer, start, end);
    const call = this.#callOf(id);
    if (call === undefined) return;
    if (block.kind === "malformed") {
      this.#failMalformed(call, `a response with malformed headers: ${block.reason}`);
      return;
    }
    const isTrailers = call.hasHead;
    if (isTrailers ? block.httpStatus !== 0 || !endStream : block.httpStatus === 0) {
      this.#failMalformed(call, "a response whose headers are out of place");
    } else if (endStream || isTrailers || block.httpStatus >= 200) {
      call.readFields(block);
      if (endStream) this.#complete(call);
    } else {
      // An interim response (1xx): the final one follows.
      this.#options.idleFrames.count();
    }
  }

  data(flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    assertProtocol(id !== 0, "DATA belongs to a stream");
    this.#receiveWindowBytes -= end - start;
    if (this.#receiveWindowBytes < 0) {
      throw new ConnectionError(ErrorCode.FlowControlError, "DATA beyond the connection's window");
    }
    const isPadded = (flags & Flag.Padded) !== 0;
    const dataStart = isPadded ? start + 1 : start;
    const dataEnd = isPadded ? end - paddingBytes(buffer, start, end) : end;
    const call = this.#callOf(id);
    this.#refillConnection();
    if (call !== undefined) {
      this.#deliver(call, end - start, (flags & Flag.EndStream) !== 0, buffer, dataStart, dataEnd);
    }
  }

  #deliver(call: Call, frameBytes: number, isLast: boolean, buffer: Buffer, start: number, end: number): void {
    call.receiveWindowBytes -= frameBytes;
    if (call.receiveWindowBytes < 0) {
      this.#reset(call, ErrorCode.FlowControlError);
      call.failMalformed("a response beyond its window");
      return;
    }
    // The first and the last piece of a response may be of any size.
    if (!isLast && end - start < (call.hasData ? smallPieceBytes : 1)) this.#options.idleFrames.count();
    if (!call.hasHead) {
      this.#failMalformed(call, "a response that begins without headers");
    } else if (!call.readData(buffer, start, end)) {
      this.#reset(call, ErrorCode.Cancel);
      call.failMalformed(`a response of more than ${maxResponseBytes} bytes`);
    } else if (isLast) {
      this.#complete(call);
    } else {
      this.#refillStream(call);
    }
  }

  /** Received bytes are consumed at once, so windows are refilled as they are used. */
  #refillConnection(): void {
    const { writer, limits } = this.#options;
    if (this.#receiveWindowBytes >= limits.connectionWindowBytes / 2) return;
    writer.windowUpdate(0, limits.connectionWindowBytes - this.#receiveWindowBytes);
    this.#receiveWindowBytes = limits.connectionWindowBytes;
  }

  #refillStream(call: Call): void {
    const { writer, limits } = this.#options;
    if (call.receiveWindowBytes >= limits.streamWindowBytes / 2) return;
    writer.windowUpdate(call.id, limits.streamWindowBytes - call.receiveWindowBytes);
    call.receiveWindowBytes = limits.streamWindowBytes;
  }

  rstStream(id: number, code: number): void {
    const call = this.#callOf(id);
    if (call === undefined) return;
    // The stream is closed, so nothing more is sent on it.
    if (code === ErrorCode.RefusedStream) {
      call.returnUnprocessed("the service rejected the call without processing it (REFUSED_STREAM)");
    } else if (code === ErrorCode.NoError && call.hasHead) {
      call.complete();
    } else {
      call.fail(`the service reset the call with error code ${code}`);
    }
  }

  windowUpdate(id: number, bytes: number): void {
    this.#options.idleFrames.count();
    assertProtocol(bytes > 0, "WINDOW_UPDATE by 0");
    if (id === 0) {
      this.#sendWindowBytes += bytes;
      if (this.#sendWindowBytes > maxWindowBytes) {
        throw new ConnectionError(ErrorCode.FlowControlError, "the connection's window is too large");
      }
      this.#sendBlocked();
      return;
    }
    const call = this.#callOf(id);
    if (call === undefined) return;
    this.#growWindow(call, bytes);
    if (this.#blocked.has(call) && this.#sendBody(call)) this.#blocked.delete(call);
  }

  /** Returns calls that the peer will not process, to be sent on another connection. */
  returnUnprocessed(lastStreamId: number): void {
    for (const call of this.#streams.all()) {
      if (call.id > lastStreamId) call.returnUnprocessed("the service is closing the connection");
    }
  }

  returnWaiting(reason: string): void {
    for (const call of this.#waiting) call.returnUnprocessed(reason);
  }

  /** Ends all calls: the connection is closed. */
  connectionLost(reason: string): void {
    for (const call of this.#streams.all()) call.connectionLost(reason);
  }

  /** Returns the call of a stream; undefined for an ended one, whose last frames may still arrive. */
  #callOf(id: number): Call | undefined {
    assertProtocol(id < this.#nextStreamId && (id & 1) === 1, "a frame on a stream that was never opened");
    const call = this.#streams.get(id);
    if (call === undefined) this.#options.idleFrames.count();
    return call;
  }

  #complete(call: Call): void {
    // The response ended before the whole call was sent; the rest is not sent.
    if (call.sentBytes < call.body.length) this.#reset(call, ErrorCode.Cancel);
    call.complete();
  }

  #failMalformed(call: Call, reason: string): void {
    this.#reset(call, ErrorCode.ProtocolError);
    call.failMalformed(reason);
  }

  #reset(call: Call, code: ErrorCode): void {
    this.#options.writer.rstStream(call.id, code);
  }
}
