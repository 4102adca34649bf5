/**
 * The requests of one connection: what opens, feeds and ends streams (RFC 9113 §5, §6.1, §6.4, §6.9) and both directions'
 * flow control. Streams in progress are bounded, cancelled ones included until their handler is done.
 */
import type { FloodGuard } from "@gatewayproxy/runtime/http2/flood-guard";
import { demand, paddingBytes } from "@gatewayproxy/runtime/http2/demand";
import {
  ConnectionError,
  defaultWindowBytes,
  ErrorCode,
  Flag,
  maxWindowBytes,
} from "@gatewayproxy/runtime/http2/frame";
import type { FrameWriter } from "@gatewayproxy/runtime/http2/frame-writer";
import { HeaderBlocks } from "@gatewayproxy/runtime/http2/header-blocks";
import { encodeHeaderBlock } from "@gatewayproxy/runtime/http2/hpack-encoder";
import type { Http2Limits } from "./limits.ts";
import { faultOfTrailers, readRequestBlock, type RequestBlock } from "./request-block.ts";
import type { RequestHead } from "./request-head.ts";
import { ServerStream, type StreamHost, type StreamReceiver } from "./server-stream.ts";
import { StreamTable } from "@gatewayproxy/runtime/http2/stream-table";

/** What is done with requests; shared by all connections of a server. */
export interface RequestHandler<Head> {
  /** Takes what it needs from a head. Must be pure: equal heads are read once. */
  readHead(head: RequestHead): Head;
  /** Begins a request; its body follows through the receiver. */
  open(stream: ServerStream, head: Head): StreamReceiver;
}

export interface RequestStreamsOptions<Head> {
  readonly writer: FrameWriter;
  readonly handler: RequestHandler<Head>;
  readonly limits: Http2Limits;
  /** Bounds frames that move no request. */
  readonly idleFrames: FloodGuard;
  /** Bounds requests that are begun and not finished. */
  readonly earlyResets: FloodGuard;
  /** The last stream in progress has ended. */
  readonly onIdle: () => void;
  /** More bytes wait for the peer's windows. */
  readonly onWaiting: () => void;
}

/** Streams that we reset and whose frames may still be under way; older ones have long arrived. */
const rememberedResets = 1_024;

/** Frames that move no request, for each answer: PING and WINDOW_UPDATE come with it, RST_STREAM may cross it. */
const idleFramesPerAnswer = 8;

/** A DATA frame with fewer bytes that does not end its request may be one of a flood. */
const smallDataBytes = 256;
/** Clients send a message's prefix, or the end of a message, in a frame of its own. */
const freeSmallFrames = 8;

/** A WINDOW_UPDATE that lets fewer bytes leave may be one of a flood. */
const usefulUpdateBytes = 256;

const headersTooLarge = encodeHeaderBlock([":status", "431"]);
const noBytes = Buffer.alloc(0);

export class RequestStreams<Head> implements StreamHost {
  readonly writer: FrameWriter;
  sendWindowBytes = defaultWindowBytes;
  waitingBytes = 0;
  /** Requests that come now are not taken: the peer has heard that the connection ends. */
  isClosed = false;

  readonly #options: RequestStreamsOptions<Head>;
  readonly #blocks: HeaderBlocks<RequestBlock<Head>>;
  readonly #streams = new StreamTable<ServerStream>();
  /** Streams with more to send than the connection's window allows. Those that wait for their own are not among them. */
  readonly #waiting = new Set<ServerStream>();
  readonly #resets = new Set<number>();
  /** Cancelled requests whose handler is still at work. */
  #abandoned = 0;
  #lastStreamId = 0;
  #peerInitialWindowBytes = defaultWindowBytes;
  #receiveWindowBytes: number;

  constructor(options: RequestStreamsOptions<Head>) {
    const { handler, limits, writer } = options;
    this.#options = options;
    this.writer = writer;
    this.#blocks = new HeaderBlocks(limits.maxHeaderListBytes, (fields) =>
      readRequestBlock(fields, (head) => handler.readHead(head)),
    );
    this.#receiveWindowBytes = limits.connectionWindowBytes;
  }

  /** Requests in progress. */
  get active(): number {
    return this.#streams.size;
  }

  /** The newest stream that the peer has opened. */
  get lastStreamId(): number {
    return this.#lastStreamId;
  }

  waitsForWindow(stream: ServerStream): void {
    if (stream.hasWindow) this.#waiting.add(stream);
    this.#options.onWaiting();
  }

  finished(stream: ServerStream, wasReset: boolean): void {
    if (stream.isCancelled) {
      this.#abandoned--;
      return;
    }
    this.#streams.delete(stream.id);
    this.#waiting.delete(stream);
    if (wasReset) {
      this.#rememberReset(stream.id);
    } else {
      this.#options.idleFrames.earn(idleFramesPerAnswer);
    }
    this.#endWhenIdle();
  }

  /** The peer's SETTINGS changed the window that streams begin with (§6.9.2). */
  changeInitialWindow(bytes: number): void {
    const change = bytes - this.#peerInitialWindowBytes;
    this.#peerInitialWindowBytes = bytes;
    for (const stream of this.#streams.all()) {
      if (!stream.adjustSendWindow(change)) {
        throw new ConnectionError(ErrorCode.FlowControlError, "INITIAL_WINDOW_SIZE makes a window too large");
      }
    }
    for (const stream of this.#streams.all()) this.#resume(stream);
  }

  /** The connection is gone. */
  cancelAll(): void {
    for (const stream of this.#streams.all()) {
      this.#cancel(stream);
    }
  }

  /** Takes a whole header block: it begins a request, or ends one. */
  headerBlock(id: number, endStream: boolean, buffer: Buffer, start: number, end: number): void {
    if (id <= this.#lastStreamId) {
      this.#trailers(id, endStream, faultOfTrailers(this.#blocks.readFields(buffer, start, end)));
      return;
    }
    this.#lastStreamId = id;
    const block = this.#blocks.read(buffer, start, end);
    if (this.isClosed) {
      // The peer has been told that this one is not taken; what follows of it is on its way already.
      this.#rememberReset(id);
    } else {
      this.#open(id, endStream, block);
    }
  }

  #open(id: number, endStream: boolean, block: RequestBlock<Head>): void {
    const { limits, handler } = this.#options;
    if (block.kind === "malformed") {
      this.#options.earlyResets.count();
      this.#refuse(id, ErrorCode.ProtocolError);
      return;
    }
    if (this.#streams.size + this.#abandoned >= limits.maxConcurrentStreams) {
      // Before it has read our settings an honest client may open more than we allow.
      this.#options.idleFrames.count();
      this.#refuse(id, ErrorCode.RefusedStream);
      return;
    }
    const stream = new ServerStream(id, this, this.#peerInitialWindowBytes, limits.streamWindowBytes);
    stream.isRequestComplete = endStream;
    this.#streams.add(stream);
    if (block.kind === "tooLarge") {
      stream.respondHeadersOnly(headersTooLarge);
      return;
    }
    stream.owedBytes = block.contentLength;
    stream.receiver = handler.open(stream, block.head);
    if (endStream) {
      this.#deliver(stream, noBytes, true);
    }
  }

  #refuse(id: number, code: ErrorCode): void {
    this.writer.rstStream(id, code);
    this.#rememberReset(id);
  }

  #trailers(id: number, endStream: boolean, fault: string | undefined): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      this.#demandReset(id);
      this.#options.idleFrames.count();
    } else if (stream.isRequestComplete) {
      this.#resetStream(stream, ErrorCode.StreamClosed);
    } else if (!endStream || fault !== undefined) {
      this.#resetStream(stream, ErrorCode.ProtocolError);
    } else {
      this.#deliver(stream, noBytes, true);
    }
  }

  data(flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    demand(id !== 0 && id <= this.#lastStreamId, "DATA on a stream that is not open");
    this.#receiveWindowBytes -= end - start;
    if (this.#receiveWindowBytes < 0) {
      throw new ConnectionError(ErrorCode.FlowControlError, "DATA beyond the connection's window");
    }
    const dataStart = (flags & Flag.Padded) === 0 ? start : start + 1;
    const dataEnd = (flags & Flag.Padded) === 0 ? end : end - paddingBytes(buffer, start, end);
    const isLast = (flags & Flag.EndStream) !== 0;
    const stream = this.#streams.get(id);
    if (!isLast && dataEnd - dataStart < smallDataBytes) {
      this.#boundSmallFrames(stream, dataEnd - dataStart);
    }
    if (stream === undefined) {
      this.#demandReset(id);
    } else if (stream.isRequestComplete) {
      this.#resetStream(stream, ErrorCode.StreamClosed);
    } else {
      stream.receiveWindowBytes -= end - start;
      if (stream.receiveWindowBytes < 0) {
        this.#resetStream(stream, ErrorCode.FlowControlError);
      } else {
        this.#deliver(stream, buffer.subarray(dataStart, dataEnd), isLast);
      }
    }
    this.#refillWindows(stream);
  }

  /** Frames that carry next to nothing cost as much as large ones; a stream may have some before they count. */
  #boundSmallFrames(stream: ServerStream | undefined, bytes: number): void {
    if (bytes > 0 && stream !== undefined && stream.smallFrames < freeSmallFrames) stream.smallFrames++;
    else this.#options.idleFrames.count();
  }

  /** Passes body bytes on, unless they are not what content-length promised (§8.1.1). */
  #deliver(stream: ServerStream, chunk: Buffer, isLast: boolean): void {
    stream.isRequestComplete = isLast;
    if (stream.owedBytes !== undefined) {
      stream.owedBytes -= chunk.length;
      if (stream.owedBytes < 0 || (isLast && stream.owedBytes > 0)) {
        this.#resetStream(stream, ErrorCode.ProtocolError);
        return;
      }
    }
    stream.receiver?.data(chunk, isLast);
  }

  /** Body bytes are taken at once, so windows are opened again as they are used. */
  #refillWindows(stream: ServerStream | undefined): void {
    const { limits } = this.#options;
    if (this.#receiveWindowBytes < limits.connectionWindowBytes / 2) {
      this.writer.windowUpdate(0, limits.connectionWindowBytes - this.#receiveWindowBytes);
      this.#receiveWindowBytes = limits.connectionWindowBytes;
    }
    if (
      stream !== undefined &&
      !stream.isRequestComplete &&
      stream.receiveWindowBytes < limits.streamWindowBytes / 2 &&
      this.#streams.get(stream.id) === stream
    ) {
      this.writer.windowUpdate(stream.id, limits.streamWindowBytes - stream.receiveWindowBytes);
      stream.receiveWindowBytes = limits.streamWindowBytes;
    }
  }

  windowUpdate(id: number, bytes: number): void {
    demand(id <= this.#lastStreamId, "WINDOW_UPDATE on a stream that is not open");
    const waitingBytes = this.waitingBytes;
    if (id === 0) this.#openConnectionWindow(bytes);
    else this.#openStreamWindow(id, bytes);
    // A client opens the window of the connection with that of the stream.
    if (waitingBytes - this.waitingBytes >= usefulUpdateBytes) this.#options.idleFrames.earn(1);
    else this.#options.idleFrames.count();
  }

  #openConnectionWindow(bytes: number): void {
    demand(bytes > 0, "WINDOW_UPDATE by 0");
    this.sendWindowBytes += bytes;
    if (this.sendWindowBytes > maxWindowBytes) {
      throw new ConnectionError(ErrorCode.FlowControlError, "the connection's window is too large");
    }
    for (const stream of this.#waiting) {
      if (this.sendWindowBytes <= 0) break;
      this.#resume(stream);
    }
  }

  #openStreamWindow(id: number, bytes: number): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    if (bytes === 0) this.#resetStream(stream, ErrorCode.ProtocolError);
    else if (!stream.adjustSendWindow(bytes)) this.#resetStream(stream, ErrorCode.FlowControlError);
    else this.#resume(stream);
  }

  /** Sends what the windows allow now. */
  #resume(stream: ServerStream): void {
    const isDone = stream.resume();
    if (isDone || !stream.hasWindow) this.#waiting.delete(stream);
    else this.#waiting.add(stream);
  }

  rstStream(id: number): void {
    demand(id <= this.#lastStreamId, "RST_STREAM on a stream that is not open");
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      // Our answer crossed it on the way.
      this.#options.idleFrames.count();
    } else {
      // Work for nothing; once a request is complete, a reset is how clients end waiting.
      if (!stream.isRequestComplete) this.#options.earlyResets.count();
      this.#cancel(stream);
      this.#endWhenIdle();
    }
  }

  /** A fault of the peer on one stream (§5.4.2). */
  #resetStream(stream: ServerStream, code: ErrorCode): void {
    this.#options.earlyResets.count();
    this.writer.rstStream(stream.id, code);
    this.#rememberReset(stream.id);
    this.#cancel(stream);
    this.#endWhenIdle();
  }

  #cancel(stream: ServerStream): void {
    this.#streams.delete(stream.id);
    this.#waiting.delete(stream);
    stream.isCancelled = true;
    this.#abandoned++;
    stream.receiver?.cancel();
  }

  #rememberReset(id: number): void {
    this.#resets.add(id);
    if (this.#resets.size > rememberedResets) {
      const [oldest = id] = this.#resets;
      this.#resets.delete(oldest);
    }
  }

  /** Frames on a stream that is gone are expected after our reset and a fault otherwise (§5.1). */
  #demandReset(id: number): void {
    if (!this.#resets.has(id)) {
      throw new ConnectionError(ErrorCode.StreamClosed, "a frame on a stream that is closed");
    }
  }

  #endWhenIdle(): void {
    if (this.#streams.size === 0) {
      this.#options.onIdle();
    }
  }
}
