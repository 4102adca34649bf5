/**
 * The streams of one connection, and their flow control in both directions (RFC 9113 §5.2, §6.1, §6.9). Client and
 * server share it; `server/request-streams.ts` and `client/client-streams.ts` open and end streams.
 */
import { assertProtocol, paddingBytes } from "./assert-protocol.ts";
import type { FloodLimit } from "./flood-limit.ts";
import { ConnectionError, defaultWindowBytes, ErrorCode, Flag, maxFramePayloadBytes, maxWindowBytes } from "./frame.ts";
import type { FrameWriter } from "./frame-writer.ts";
import type { Http2Stream, StreamHost } from "./http2-stream.ts";
import { StreamTable } from "./stream-table.ts";

/** Receive windows, in bytes. */
export interface WindowLimits {
  /** Window of a stream. */
  readonly streamWindowBytes: number;
  /** Window of the connection. */
  readonly connectionWindowBytes: number;
}

/** The connection of the streams, and its bounds. */
export interface StreamsOptions {
  /** Receives the frames to send. */
  readonly writer: FrameWriter;
  /** The receive windows. */
  readonly windows: WindowLimits;
  /** Bounds frames that advance no stream. */
  readonly idleFrames: FloodLimit;
  /** Bounds small DATA frames. */
  readonly smallFrames: FloodLimit;
  /** A shorter DATA frame that does not end its stream counts as small. */
  readonly smallFrameBytes: number;
  /** Called when more bytes wait for the peer's windows. */
  readonly onWaiting?: (() => void) | undefined;
}

/**
 * Small frames that each stream may send, because peers send the prefix or the end of a message in a separate frame.
 */
const allowedSmallFrames = 8;
/** More sent data permits no further frames that open windows. */
const maxReturnableBytes = 16 * 1024 * 1024;
/** A WINDOW_UPDATE that releases fewer bytes counts as a frame without progress. */
const usefulUpdateBytes = 256;
/**
 * Frames without progress that each sent chunk permits. A peer may open two windows for it, and acknowledge other
 * frames.
 */
const idleFramesPerChunk = 4;

const noStreams: ReadonlySet<Http2Stream> = new Set();

/** The streams of a connection. Methods that handle frames throw `ConnectionError` if the peer violates HTTP/2. */
export abstract class Streams<Stream extends Http2Stream> implements StreamHost {
  readonly writer: FrameWriter;
  sendWindowBytes = defaultWindowBytes;
  waitingBytes = 0;
  heldBytes = 0;
  /** Frames that advance no stream. */
  protected readonly idleFrames: FloodLimit;
  protected readonly table = new StreamTable<Stream>();
  protected readonly windows: WindowLimits;
  protected peerInitialWindowBytes = defaultWindowBytes;
  readonly #options: StreamsOptions;
  /**
   * Streams with more to send than the connection's window or its socket allows, without those that wait for their own
   * window.
   */
  readonly #waiting = new Set<Http2Stream>();
  /** Streams that would wait in `#waiting` if the share of their client permitted more. */
  readonly #heldBack = new Set<Http2Stream>();
  #receiveWindowBytes: number;
  /** The largest window of the connection that the peer has given. */
  largestWindowBytes = defaultWindowBytes;
  /** How often the peer has opened the window of the connection. */
  protected windowOpenings = 0;
  /** Bytes of data that was sent, for which the peer may open the windows of stream and connection. */
  #returnableBytes = 0;
  /** Bytes that the peer may have sent on closed streams before it knew of their end. */
  #lateBytes = 0;

  constructor(options: StreamsOptions) {
    this.#options = options;
    this.writer = options.writer;
    this.windows = options.windows;
    this.idleFrames = options.idleFrames;
    this.#receiveWindowBytes = options.windows.connectionWindowBytes;
  }

  /** Number of open streams. */
  get active(): number {
    return this.table.size;
  }

  /**
   * Returns the stream of a frame; undefined if the stream is closed. Throws `ConnectionError` if the stream was never
   * open, or if the peer must know that it is closed.
   */
  protected abstract streamOf(id: number): Stream | undefined;

  /** Delivers body bytes, which are valid during the call only. */
  protected abstract deliver(stream: Stream, buffer: Buffer, start: number, end: number, isLast: boolean): void;

  /** The streams that wait for the window of the connection, or for their share of it. */
  protected get waitingForConnection(): ReadonlySet<Http2Stream> {
    if (this.#heldBack.size === 0) return this.sendWindowBytes > 0 ? noStreams : this.#waiting;
    return this.sendWindowBytes > 0 ? this.#heldBack : this.#waiting.union(this.#heldBack);
  }

  /** Of the streams that wait, those that hold the least of the window get the next part of it first. */
  protected orderWaiting(): void {
    const ordered = [...this.#waiting].sort((one, other) => other.sendWindowBytes - one.sendWindowBytes);
    this.#waiting.clear();
    for (const stream of ordered) this.#waiting.add(stream);
  }

  /** Nothing more is sent. */
  protected stopWaiting(): void {
    this.#waiting.clear();
    this.#heldBack.clear();
  }

  waitForWindow(stream: Http2Stream): void {
    this.#wait(stream);
    this.#options.onWaiting?.();
  }

  #wait(stream: Http2Stream): void {
    if (stream.sendWindowBytes <= 0) return;
    if (this.sendWindowBytes > 0 && !this.#hasRoom(stream)) this.#heldBack.add(stream);
    else this.#waiting.add(stream);
  }

  #hasRoom({ share }: Http2Stream): boolean {
    return share === undefined || share.roomIn(this.sendWindowBytes, this.largestWindowBytes) > 0;
  }

  sentData(bytes: number, isLargePart: boolean): void {
    this.#returnableBytes = Math.min(maxReturnableBytes, this.#returnableBytes + 2 * bytes);
    if (isLargePart) this.idleFrames.replenish(idleFramesPerChunk);
  }

  /** Adds an open stream with full windows. */
  protected open(stream: Stream): void {
    stream.sendWindowBytes = this.peerInitialWindowBytes;
    stream.receiveWindowBytes = this.windows.streamWindowBytes;
    this.table.add(stream);
  }

  /** Removes a closed stream. */
  protected close(stream: Stream): void {
    this.table.delete(stream.id);
    if (!stream.isInputComplete && stream.receiveWindowBytes > 0) this.permitLate(stream.receiveWindowBytes);
    if (this.#waiting.size > 0) this.#waiting.delete(stream);
    if (this.#heldBack.size > 0) this.#heldBack.delete(stream);
  }

  /** Permits DATA on a closed stream, up to the window that the peer had when it was closed. */
  protected permitLate(bytes: number): void {
    this.#lateBytes += bytes;
  }

  /** Applies a change of the initial window size by the peer's SETTINGS (§6.9.2). */
  changeInitialWindow(bytes: number): void {
    const change = bytes - this.peerInitialWindowBytes;
    this.peerInitialWindowBytes = bytes;
    const streams = this.table.all();
    for (const stream of streams) {
      if (!stream.adjustSendWindow(change)) {
        throw new ConnectionError(ErrorCode.FlowControlError, "INITIAL_WINDOW_SIZE makes a window too large");
      }
    }
    for (const stream of streams) this.#resume(stream);
    this.resumeWaiting();
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
    const isLast = (flags & Flag.EndStream) !== 0;
    const stream = this.streamOf(id);
    if (stream === undefined) this.#boundLateFrames(end - start);
    if (!isLast && dataEnd - dataStart < this.#options.smallFrameBytes) {
      this.#boundSmallFrames(stream, dataEnd - dataStart);
    }
    if (stream !== undefined) this.#receive(stream, end - start, buffer, dataStart, dataEnd, isLast);
    this.#refillConnection();
  }

  /**
   * Counts frames on closed streams, but none that the peer may have sent before it knew of the end. A peer sends
   * thousands of small ones at once, and the connection belongs to other requests too.
   */
  #boundLateFrames(bytes: number): void {
    if (bytes > 0 && bytes <= this.#lateBytes) this.#lateBytes -= bytes;
    else this.idleFrames.count();
  }

  #receive(stream: Stream, frameBytes: number, buffer: Buffer, start: number, end: number, isLast: boolean): void {
    if (stream.isInputComplete) {
      stream.fail(ErrorCode.StreamClosed, "DATA after the end of its stream");
      return;
    }
    stream.receiveWindowBytes -= frameBytes;
    if (stream.receiveWindowBytes < 0) {
      stream.fail(ErrorCode.FlowControlError, "DATA beyond the window of its stream");
      return;
    }
    this.deliver(stream, buffer, start, end, isLast);
    if (!isLast) this.refillStream(stream);
  }

  /** Counts small frames, because the work for a frame hardly depends on its length. Each stream may send a few. */
  #boundSmallFrames(stream: Stream | undefined, bytes: number): void {
    if (bytes === 0) this.idleFrames.count();
    else if (stream !== undefined && stream.smallFrames < allowedSmallFrames) stream.smallFrames++;
    else this.#options.smallFrames.count();
  }

  /**
   * Opens the connection's window again, also for buffered bytes, so that a stream that is not read blocks no other.
   */
  #refillConnection(): void {
    const { connectionWindowBytes } = this.windows;
    if (this.#receiveWindowBytes >= connectionWindowBytes / 2) return;
    this.writer.windowUpdate(0, connectionWindowBytes - this.#receiveWindowBytes);
    this.#receiveWindowBytes = connectionWindowBytes;
  }

  /** Opens a stream's window for the bytes that its receiver has read, when they exceed half of the window. */
  refillStream(stream: Stream): void {
    const { streamWindowBytes } = this.windows;
    const bytes = streamWindowBytes - stream.heldBytes - stream.receiveWindowBytes;
    if (bytes <= streamWindowBytes / 2 || stream.isInputComplete || this.table.get(stream.id) !== stream) return;
    this.writer.windowUpdate(stream.id, bytes);
    stream.receiveWindowBytes += bytes;
  }

  windowUpdate(id: number, bytes: number): void {
    const { waitingBytes } = this;
    if (id === 0) {
      this.#openConnectionWindow(bytes);
    } else {
      this.assertOpened(id, "WINDOW_UPDATE");
      const stream = this.table.get(id);
      if (stream !== undefined) this.#openStreamWindow(stream, bytes);
    }
    // A peer opens the window of the connection together with that of the stream.
    if (waitingBytes - this.waitingBytes >= usefulUpdateBytes) this.idleFrames.replenish(1);
    else if (!this.#returns(bytes)) this.idleFrames.count();
  }

  /** Whether a WINDOW_UPDATE returns the window of data that was sent. Some peers send one for each 4 KiB. */
  #returns(bytes: number): boolean {
    if (bytes < usefulUpdateBytes || bytes > this.#returnableBytes) return false;
    this.#returnableBytes -= bytes;
    return true;
  }

  /** Throws unless the stream is open or was open: a frame on an idle stream is an error (§5.1). */
  protected abstract assertOpened(id: number, frame: string): void;

  #openConnectionWindow(bytes: number): void {
    assertProtocol(bytes > 0, "WINDOW_UPDATE by 0");
    this.sendWindowBytes += bytes;
    if (this.sendWindowBytes > maxWindowBytes) {
      throw new ConnectionError(ErrorCode.FlowControlError, "the connection's window is too large");
    }
    this.largestWindowBytes = Math.max(this.largestWindowBytes, this.sendWindowBytes);
    this.windowOpenings++;
    this.resumeWaiting();
  }

  /** Sends as much as the windows and the socket allow now, a frame of each stream in turn. */
  resumeWaiting(): void {
    for (const stream of this.#heldBack) {
      if (!this.#hasRoom(stream)) continue;
      this.#heldBack.delete(stream);
      this.#waiting.add(stream);
    }
    // A stream that is added again is last, so the loop visits the streams in turn.
    for (const stream of this.#waiting) {
      if (this.sendWindowBytes <= 0 || this.writer.bodyRoom === 0) break;
      this.#resume(stream);
    }
  }

  #openStreamWindow(stream: Stream, bytes: number): void {
    stream.returnWindow(bytes);
    if (bytes === 0) {
      stream.fail(ErrorCode.ProtocolError, "WINDOW_UPDATE by 0");
    } else if (!stream.adjustSendWindow(bytes)) {
      stream.fail(ErrorCode.FlowControlError, "the stream's window is too large");
    } else {
      this.#resume(stream);
      this.resumeWaiting();
    }
  }

  /** Sends a frame of the stream if the windows allow it now. */
  #resume(stream: Http2Stream): void {
    if (!stream.isWaiting) return;
    this.#waiting.delete(stream);
    this.#heldBack.delete(stream);
    if (stream.sendWaiting(this, maxFramePayloadBytes) !== "done") this.#wait(stream);
  }
}
