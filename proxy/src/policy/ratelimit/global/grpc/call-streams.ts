/**
 * The calls of one connection: what opens, feeds and ends their streams (RFC 9113 §5, §6.1, §6.4, §6.9), both directions'
 * flow control, and the calls that wait until the peer takes them.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { demand, paddingBytes } from "@gatewayproxy/runtime/http2/demand";
import type { FloodGuard } from "@gatewayproxy/runtime/http2/flood-guard";
import {
  ConnectionError,
  defaultWindowBytes,
  ErrorCode,
  Flag,
  maxFramePayloadBytes,
  maxWindowBytes,
} from "@gatewayproxy/runtime/http2/frame";
import type { FrameWriter } from "@gatewayproxy/runtime/http2/frame-writer";
import { HeaderBlocks } from "@gatewayproxy/runtime/http2/header-blocks";
import type { PeerSettings } from "@gatewayproxy/runtime/http2/settings";
import { StreamTable } from "@gatewayproxy/runtime/http2/stream-table";
import { type Call, type CallHost, type Ending, maxAnswerBytes } from "./call.ts";
import type { CallHeads } from "./call-heads.ts";
import { type ClientLimits, maxHeaderListBytes } from "./client-limits.ts";
import { readResponseBlock, type ResponseBlock } from "./response-block.ts";

export interface CallStreamsOptions {
  readonly writer: FrameWriter;
  readonly heads: CallHeads;
  readonly limits: ClientLimits;
  readonly clock: Clock;
  /** Bounds frames that move no call. */
  readonly idleFrames: FloodGuard;
  /** The last call under way has ended. */
  readonly onIdle: () => void;
  /** The numbers of streams have come to their end. */
  readonly onUsedUp: () => void;
  /** A call under way has had no answer in time. */
  readonly onTimeout: () => void;
}

/** Frames that move no call, for each call: PING and WINDOW_UPDATE come with it, a late answer after it. */
const idleFramesPerCall = 8;
/** DATA frames below this cost more than they bring. */
const smallPieceBytes = 256;

export class CallStreams implements CallHost {
  readonly #options: CallStreamsOptions;
  readonly #blocks = new HeaderBlocks<ResponseBlock>(maxHeaderListBytes, readResponseBlock);
  readonly #streams = new StreamTable<Call>();
  /** Calls without a stream, in their order: before the settings have come, and while the peer takes no more at once. */
  readonly #waiting = new Set<Call>();
  /** Calls whose message the windows hold back, in their order. */
  readonly #blocked = new Set<Call>();
  #isSettled = false;
  #nextStreamId = 1;
  #maxConcurrentStreams = Infinity;
  #peerInitialWindowBytes = defaultWindowBytes;
  #sendWindowBytes = defaultWindowBytes;
  #receiveWindowBytes: number;

  constructor(options: CallStreamsOptions) {
    this.#options = options;
    this.#receiveWindowBytes = options.limits.connectionWindowBytes;
  }

  /** Calls that have a stream. */
  get active(): number {
    return this.#streams.size;
  }

  /** Sends the call, now or when there is room for it. */
  start(call: Call): void {
    const { writer, limits } = this.#options;
    if (writer.waitingBytes > limits.maxWaitingBytes) {
      call.giveBack("the service does not read its calls");
      return;
    }
    call.host = this;
    if (this.#hasRoom) this.#open(call);
    else this.#waiting.add(call);
  }

  get #hasRoom(): boolean {
    return this.#isSettled && this.#streams.size < this.#maxConcurrentStreams;
  }

  #open(call: Call): void {
    const { writer, heads, limits, clock } = this.#options;
    call.id = this.#nextStreamId;
    call.sendWindowBytes = this.#peerInitialWindowBytes;
    call.receiveWindowBytes = limits.streamWindowBytes;
    this.#nextStreamId += 2;
    this.#streams.add(call);
    const leftMs = Math.ceil(call.pending.deadlineMs - clock.monotonicMs());
    writer.headers(call.id, heads.blockOf(call.pending.path, leftMs), false);
    if (!this.#sendOn(call)) this.#blocked.add(call);
    if (this.#nextStreamId > limits.maxStreamId) this.#options.onUsedUp();
  }

  /** Sends of a call's message what the windows allow. @returns whether that was all. */
  #sendOn(call: Call): boolean {
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
    for (const call of this.#blocked) if (this.#sendOn(call)) this.#blocked.delete(call);
  }

  #startWaiting(): void {
    for (const call of this.#waiting) {
      if (!this.#hasRoom) return;
      this.#waiting.delete(call);
      this.#open(call);
    }
  }

  /** A call is over, whoever ended it: what is left of its stream goes. */
  ended(call: Call, ending: Ending): void {
    this.#waiting.delete(call);
    this.#blocked.delete(call);
    if (this.#streams.get(call.id) !== call) return;
    this.#streams.delete(call.id);
    this.#options.idleFrames.earn(idleFramesPerCall);
    if (ending === "timedOut") {
      this.#options.writer.rstStream(call.id, ErrorCode.Cancel);
      this.#options.onTimeout();
    }
    this.#startWaiting();
    if (this.#streams.size === 0) this.#options.onIdle();
  }

  /** Takes the peer's settings over. */
  apply({ initialWindowBytes, maxConcurrentStreams }: PeerSettings): void {
    this.#isSettled = true;
    this.#maxConcurrentStreams = maxConcurrentStreams ?? this.#maxConcurrentStreams;
    if (initialWindowBytes !== undefined) this.#changeInitialWindow(initialWindowBytes);
    this.#startWaiting();
  }

  /** Streams that are open change with it (§6.9.2). */
  #changeInitialWindow(bytes: number): void {
    const change = bytes - this.#peerInitialWindowBytes;
    this.#peerInitialWindowBytes = bytes;
    for (const call of this.#streams.all()) this.#widen(call, change);
    this.#sendBlocked();
  }

  #widen(call: Call, bytes: number): void {
    call.sendWindowBytes += bytes;
    if (call.sendWindowBytes > maxWindowBytes) {
      throw new ConnectionError(ErrorCode.FlowControlError, "a stream's window is too large");
    }
  }

  /** Takes a whole header block: it begins an answer, or ends one. */
  headerBlock(id: number, endStream: boolean, buffer: Buffer, start: number, end: number): void {
    // Of a call that is over as well: the table of fields must stay in step.
    const block = this.#blocks.read(buffer, start, end);
    const call = this.#callOf(id);
    if (call === undefined) return;
    if (block.kind === "malformed") {
      this.#spoil(call, `an answer with malformed headers: ${block.reason}`);
      return;
    }
    const isTrailers = call.hasHead;
    if (isTrailers ? block.httpStatus !== 0 || !endStream : block.httpStatus === 0) {
      this.#spoil(call, "an answer whose headers are out of place");
    } else if (endStream || isTrailers || block.httpStatus >= 200) {
      call.readFields(block);
      if (endStream) this.#conclude(call);
    } else {
      // An interim answer (1xx): the answer follows.
      this.#options.idleFrames.count();
    }
  }

  data(flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    demand(id !== 0, "DATA belongs to a stream");
    this.#receiveWindowBytes -= end - start;
    if (this.#receiveWindowBytes < 0) {
      throw new ConnectionError(ErrorCode.FlowControlError, "DATA beyond the connection's window");
    }
    const isPadded = (flags & Flag.Padded) !== 0;
    const dataStart = isPadded ? start + 1 : start;
    const dataEnd = isPadded ? end - paddingBytes(buffer, start, end) : end;
    const call = this.#callOf(id);
    this.#refillConnection();
    if (call !== undefined)
      this.#deliver(call, end - start, (flags & Flag.EndStream) !== 0, buffer, dataStart, dataEnd);
  }

  #deliver(call: Call, frameBytes: number, isLast: boolean, buffer: Buffer, start: number, end: number): void {
    call.receiveWindowBytes -= frameBytes;
    if (call.receiveWindowBytes < 0) {
      this.#reset(call, ErrorCode.FlowControlError);
      call.spoil("an answer beyond its window");
      return;
    }
    // Only the first piece of an answer, and the last, may be as small as the answer is.
    if (!isLast && end - start < (call.hasData ? smallPieceBytes : 1)) this.#options.idleFrames.count();
    if (!call.hasHead) this.#spoil(call, "an answer that begins without headers");
    else if (!call.readData(buffer, start, end)) {
      this.#reset(call, ErrorCode.Cancel);
      call.spoil(`an answer of more than ${maxAnswerBytes} bytes`);
    } else if (isLast) this.#conclude(call);
    else this.#refillStream(call);
  }

  /** What is read is taken at once, so windows are opened again as they are used. */
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
    // From here on the stream is no more, so nothing is sent on it.
    if (code === ErrorCode.RefusedStream) call.giveBack("the service refused the call unread");
    else if (code === ErrorCode.NoError && call.hasHead) call.conclude();
    else call.fail(`the service broke the call off with error code ${code}`);
  }

  windowUpdate(id: number, bytes: number): void {
    this.#options.idleFrames.count();
    demand(bytes > 0, "WINDOW_UPDATE by 0");
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
    this.#widen(call, bytes);
    if (this.#blocked.has(call) && this.#sendOn(call)) this.#blocked.delete(call);
  }

  /** Calls beyond the last that the peer will serve are given back, to be made elsewhere. */
  giveBackAfter(lastStreamId: number): void {
    for (const call of this.#streams.all()) if (call.id > lastStreamId) call.giveBack("the service is leaving");
  }

  giveWaitingBack(reason: string): void {
    for (const call of this.#waiting) call.giveBack(reason);
  }

  /** The connection is gone. */
  breakOff(reason: string): void {
    for (const call of this.#streams.all()) call.breakOff(reason);
  }

  /** The call of a stream; undefined for one that is over, whose last frames may still be on their way. */
  #callOf(id: number): Call | undefined {
    demand(id < this.#nextStreamId && (id & 1) === 1, "a frame on a stream that we have not opened");
    const call = this.#streams.get(id);
    if (call === undefined) this.#options.idleFrames.count();
    return call;
  }

  #conclude(call: Call): void {
    // The answer came before all of the call was sent, and the rest is not wanted.
    if (call.sentBytes < call.body.length) this.#reset(call, ErrorCode.Cancel);
    call.conclude();
  }

  #spoil(call: Call, reason: string): void {
    this.#reset(call, ErrorCode.ProtocolError);
    call.spoil(reason);
  }

  #reset(call: Call, code: ErrorCode): void {
    this.#options.writer.rstStream(call.id, code);
  }
}
