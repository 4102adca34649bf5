/**
 * The requests of one connection: opens, feeds and ends streams (RFC 9113 §5, §6.1, §6.4, §6.9) and controls the flow
 * in both directions. Streams in progress are bounded, including cancelled ones until their handler is done.
 */
import type { FloodLimit } from "../flood-limit.ts";
import { assertProtocol, paddingBytes } from "../assert-protocol.ts";
import { ConnectionError, defaultWindowBytes, ErrorCode, Flag, maxWindowBytes } from "../frame.ts";
import type { FrameWriter } from "../frame-writer.ts";
import { HeaderBlockReader } from "../header-block-reader.ts";
import { encodeHeaderBlock } from "../hpack/hpack-encoder.ts";
import type { Http2Limits } from "./server-limits.ts";
import { trailerProblem, readRequestBlock, type RequestBlock } from "./request-block.ts";
import type { RequestHead } from "./request-head.ts";
import { ServerStream, type StreamHost, type StreamReceiver } from "./server-stream.ts";
import { StreamTable } from "../stream-table.ts";

/** The handler of requests, shared by all connections of a server. */
export interface RequestHandler<Head> {
  /** Takes the needed data from a head. Must be pure: equal heads are read once. */
  readHead(head: RequestHead): Head;
  /** Starts a request; its body follows through the receiver. */
  open(stream: ServerStream, head: Head): StreamReceiver;
}

/** The connection of the requests, and its bounds. */
export interface RequestStreamsOptions<Head> {
  /** Receives the frames to send. */
  readonly writer: FrameWriter;
  /** Receives the requests. */
  readonly handler: RequestHandler<Head>;
  /** The windows, and the bounds of requests. */
  readonly limits: Http2Limits;
  /** Bounds frames that do not advance a request. */
  readonly idleFrames: FloodLimit;
  /** Bounds requests that are begun and not finished. */
  readonly earlyResets: FloodLimit;
  /** Called when the last stream in progress has ended. */
  readonly onIdle: () => void;
  /** Called when more bytes wait for the peer's windows. */
  readonly onWaiting: () => void;
}

/** Number of reset streams whose ids are kept, because frames for them may still arrive. */
const maxRecentResets = 1_024;

/**
 * Frames that do not advance a request, allowed per response: PING and WINDOW_UPDATE come with it, RST_STREAM may cross
 * it.
 */
const idleFramesPerResponse = 8;

/** A shorter DATA frame that does not end its request counts for the flood limit. */
const smallDataBytes = 256;
/** Small frames per stream that are allowed: clients send a message's prefix, or its end, in a frame of its own. */
const allowedSmallFrames = 8;

/** A WINDOW_UPDATE that releases fewer bytes counts for the flood limit. */
const usefulUpdateBytes = 256;

const headersTooLarge = encodeHeaderBlock([":status", "431"]);
const noBytes = Buffer.alloc(0);

/** The requests of one connection. Methods that handle frames throw `ConnectionError` if the peer violates HTTP/2. */
export class RequestStreams<Head> implements StreamHost {
  readonly writer: FrameWriter;
  sendWindowBytes = defaultWindowBytes;
  waitingBytes = 0;
  /** Whether new requests are ignored: the peer knows that the connection ends. */
  isClosed = false;

  readonly #options: RequestStreamsOptions<Head>;
  readonly #blocks: HeaderBlockReader<RequestBlock<Head>>;
  readonly #streams = new StreamTable<ServerStream>();
  /** Streams with more to send than the connection's window allows, without those that wait for their own window. */
  readonly #waiting = new Set<ServerStream>();
  readonly #recentResets = new Set<number>();
  /** Cancelled requests whose handler still runs. */
  #cancelledInProgress = 0;
  #lastStreamId = 0;
  #peerInitialWindowBytes = defaultWindowBytes;
  #receiveWindowBytes: number;

  constructor(options: RequestStreamsOptions<Head>) {
    const { handler, limits, writer } = options;
    this.#options = options;
    this.writer = writer;
    this.#blocks = new HeaderBlockReader(limits.maxHeaderListBytes, (fields) =>
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

  waitForWindow(stream: ServerStream): void {
    if (stream.hasWindow) this.#waiting.add(stream);
    this.#options.onWaiting();
  }

  finished(stream: ServerStream, wasReset: boolean): void {
    if (stream.isCancelled) {
      this.#cancelledInProgress--;
      return;
    }
    this.#streams.delete(stream.id);
    this.#waiting.delete(stream);
    if (wasReset) {
      this.#recordReset(stream.id);
    } else {
      this.#options.idleFrames.replenish(idleFramesPerResponse);
    }
    this.#endWhenIdle();
  }

  /** Applies a change of the initial window size by the peer's SETTINGS (§6.9.2). */
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

  /** Cancels all requests when the connection is closed. */
  cancelAll(): void {
    for (const stream of this.#streams.all()) {
      this.#cancel(stream);
    }
  }

  /** Processes a whole header block: it begins a request, or ends one. */
  headerBlock(id: number, endStream: boolean, buffer: Buffer, start: number, end: number): void {
    if (id <= this.#lastStreamId) {
      this.#trailers(id, endStream, trailerProblem(this.#blocks.readFields(buffer, start, end)));
      return;
    }
    this.#lastStreamId = id;
    const block = this.#blocks.read(buffer, start, end);
    if (this.isClosed) {
      // The peer has received the rejection of the request; its further frames may still arrive.
      this.#recordReset(id);
    } else {
      this.#open(id, endStream, block);
    }
  }

  #open(id: number, endStream: boolean, block: RequestBlock<Head>): void {
    const { limits, handler } = this.#options;
    if (block.kind === "malformed") {
      this.#options.earlyResets.count();
      this.#rejectStream(id, ErrorCode.ProtocolError);
      return;
    }
    if (this.#streams.size + this.#cancelledInProgress >= limits.maxConcurrentStreams) {
      // Before it has read the server's SETTINGS, a correct client may open more streams than allowed.
      this.#options.idleFrames.count();
      this.#rejectStream(id, ErrorCode.RefusedStream);
      return;
    }
    const stream = new ServerStream(id, this, this.#peerInitialWindowBytes, limits.streamWindowBytes);
    stream.isRequestComplete = endStream;
    this.#streams.add(stream);
    if (block.kind === "tooLarge") {
      stream.respondHeadersOnly(headersTooLarge);
      return;
    }
    stream.remainingBytes = block.contentLength;
    stream.receiver = handler.open(stream, block.head);
    if (endStream) {
      this.#deliver(stream, noBytes, true);
    }
  }

  #rejectStream(id: number, code: ErrorCode): void {
    this.writer.rstStream(id, code);
    this.#recordReset(id);
  }

  #trailers(id: number, endStream: boolean, problem: string | undefined): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      this.#requireReset(id);
      this.#options.idleFrames.count();
    } else if (stream.isRequestComplete) {
      this.#resetStream(stream, ErrorCode.StreamClosed);
    } else if (!endStream || problem !== undefined) {
      this.#resetStream(stream, ErrorCode.ProtocolError);
    } else {
      this.#deliver(stream, noBytes, true);
    }
  }

  data(flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    assertProtocol(id !== 0 && id <= this.#lastStreamId, "DATA on a stream that is not open");
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
      this.#requireReset(id);
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

  /** Counts small frames, since the work for a frame depends little on its length; a stream may send a few before. */
  #boundSmallFrames(stream: ServerStream | undefined, bytes: number): void {
    if (bytes > 0 && stream !== undefined && stream.smallFrames < allowedSmallFrames) stream.smallFrames++;
    else this.#options.idleFrames.count();
  }

  /** Delivers body bytes, unless they contradict content-length (§8.1.1). */
  #deliver(stream: ServerStream, chunk: Buffer, isLast: boolean): void {
    stream.isRequestComplete = isLast;
    if (stream.remainingBytes !== undefined) {
      stream.remainingBytes -= chunk.length;
      if (stream.remainingBytes < 0 || (isLast && stream.remainingBytes > 0)) {
        this.#resetStream(stream, ErrorCode.ProtocolError);
        return;
      }
    }
    stream.receiver?.data(chunk, isLast);
  }

  /** Opens the windows again: body bytes are consumed at once. */
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
    assertProtocol(id <= this.#lastStreamId, "WINDOW_UPDATE on a stream that is not open");
    const waitingBytes = this.waitingBytes;
    if (id === 0) this.#openConnectionWindow(bytes);
    else this.#openStreamWindow(id, bytes);
    // A client opens the window of the connection together with that of the stream.
    if (waitingBytes - this.waitingBytes >= usefulUpdateBytes) this.#options.idleFrames.replenish(1);
    else this.#options.idleFrames.count();
  }

  #openConnectionWindow(bytes: number): void {
    assertProtocol(bytes > 0, "WINDOW_UPDATE by 0");
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
    assertProtocol(id <= this.#lastStreamId, "RST_STREAM on a stream that is not open");
    const stream = this.#streams.get(id);
    if (stream === undefined) {
      // The response crossed the RST_STREAM.
      this.#options.idleFrames.count();
    } else {
      // Counts work that was started for nothing. After a complete request, a reset is the normal way to stop waiting.
      if (!stream.isRequestComplete) this.#options.earlyResets.count();
      this.#cancel(stream);
      this.#endWhenIdle();
    }
  }

  /** Resets a stream after an error of the peer (§5.4.2). */
  #resetStream(stream: ServerStream, code: ErrorCode): void {
    this.#options.earlyResets.count();
    this.writer.rstStream(stream.id, code);
    this.#recordReset(stream.id);
    this.#cancel(stream);
    this.#endWhenIdle();
  }

  #cancel(stream: ServerStream): void {
    this.#streams.delete(stream.id);
    this.#waiting.delete(stream);
    stream.isCancelled = true;
    this.#cancelledInProgress++;
    stream.receiver?.cancel();
  }

  #recordReset(id: number): void {
    this.#recentResets.add(id);
    if (this.#recentResets.size > maxRecentResets) {
      const [oldest = id] = this.#recentResets;
      this.#recentResets.delete(oldest);
    }
  }

  /** Throws unless the server has reset the stream: then further frames are expected, else they are an error (§5.1). */
  #requireReset(id: number): void {
    if (!this.#recentResets.has(id)) {
      throw new ConnectionError(ErrorCode.StreamClosed, "a frame on a stream that is closed");
    }
  }

  #endWhenIdle(): void {
    if (this.#streams.size === 0) {
      this.#options.onIdle();
    }
  }
}
