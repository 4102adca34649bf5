/**
 * The requests of one connection: opens, feeds and ends streams (RFC 9113 §5, §6.1, §6.4). Streams in progress are
 * bounded, including cancelled ones until their handler is done.
 */
import type { FloodLimit } from "../flood-limit.ts";
import type { FieldList } from "../../ports.ts";
import { ConnectionError, ErrorCode } from "../frame.ts";
import { HeaderBlockReader } from "../header-block-reader.ts";
import { encodeHeaderBlock } from "../hpack/hpack-encoder.ts";
import { Streams, type StreamsOptions } from "../streams.ts";
import { readRequestBlock, type RequestBlock, type TrailerBlock, readTrailerBlock } from "./request-block.ts";
import type { RequestHead } from "./request-head.ts";
import type { Http2Limits } from "./server-limits.ts";
import { type RequestHost, ServerStream, type StreamReceiver } from "./server-stream.ts";

/** The handler of requests, shared by all connections of a server. */
export interface RequestHandler<Head> {
  /** Extracts the needed data from a head. It must be pure, because it is called once for equal heads. */
  readHead(head: RequestHead): Head;
  /** Starts a request; its body follows through the receiver. */
  open(stream: ServerStream, head: Head): StreamReceiver;
  /**
   * Responds to a request whose fields exceed the bounds. Absent: 431 without a body.
   *
   * @param fields the first of them.
   */
  rejectTooLarge?(stream: ServerStream, fields: FieldList): void;
}

/** The connection of the requests, and its bounds. */
export interface RequestStreamsOptions<Head> extends StreamsOptions {
  /** Receives the requests. */
  readonly handler: RequestHandler<Head>;
  /** The bounds of requests. */
  readonly limits: Http2Limits;
  /** Bounds requests that begin and do not finish. */
  readonly earlyResets: FloodLimit;
  /** Bounds requests that the client resets before they have a response; absent: no bound. */
  readonly resets: FloodLimit | undefined;
  /** Called when the last stream in progress has ended. */
  readonly onIdle: () => void;
}

/** Number of reset streams whose identifiers are kept, because frames for them may still arrive. */
const maxRecentResets = 1_024;

/**
 * Frames that do not advance a request, allowed per response: PING and WINDOW_UPDATE come with it, RST_STREAM may cross
 * it.
 */
const idleFramesPerResponse = 8;

/** Whether the request has a body by its content-length; without one, it is malformed (§8.1.1). */
function announcesBody<Head>(block: RequestBlock<Head>): boolean {
  return block.kind === "request" && block.contentLength !== undefined && block.contentLength > 0;
}

const headersTooLarge = encodeHeaderBlock([":status", "431"]);
const noBytes = Buffer.alloc(0);
const noFields: readonly string[] = [];

/** The requests of one connection. Methods that handle frames throw `ConnectionError` if the peer violates HTTP/2. */
export class RequestStreams<Head> extends Streams<ServerStream> implements RequestHost {
  /** Whether new requests are ignored: the peer knows that the connection ends. */
  isClosed = false;

  readonly #requests: RequestStreamsOptions<Head>;
  readonly #blocks: HeaderBlockReader<RequestBlock<Head>>;
  readonly #recentResets = new Set<number>();
  /** Streams whose last frame is written and not passed to the kernel, and the flushes that contain it. */
  readonly #unwritten: ServerStream[] = [];
  readonly #unwrittenFlushes: number[] = [];
  /** Cancelled requests whose handler still runs. */
  #cancelledInProgress = 0;
  #lastStreamId = 0;

  constructor(options: RequestStreamsOptions<Head>) {
    super(options);
    const { handler, limits } = options;
    this.#requests = options;
    this.#blocks = new HeaderBlockReader(limits.maxHeaderListBytes, (fields, isTooLarge) =>
      isTooLarge
        ? { kind: "tooLarge", fields }
        : readRequestBlock(fields, limits.allowsConnect === true, (head) => handler.readHead(head)),
    );
  }

  /** The newest stream that the peer has opened. */
  get lastStreamId(): number {
    return this.#lastStreamId;
  }

  finished(stream: ServerStream, wasReset: boolean): void {
    if (stream.isCancelled) {
      this.#cancelledInProgress--;
      return;
    }
    this.close(stream);
    if (wasReset) this.#recordReset(stream.id);
    else this.idleFrames.replenish(idleFramesPerResponse);
    this.#endWhenIdle();
  }

  ended(stream: ServerStream): void {
    if (stream.receiver?.written === undefined) return;
    this.#unwritten.push(stream);
    this.#unwrittenFlushes.push(this.writer.flushes + 1);
  }

  /** Called when the frames up to a flush have been passed to the kernel. */
  written(flush: number): void {
    const flushes = this.#unwrittenFlushes;
    let count = 0;
    while (count < flushes.length && (flushes[count] ?? 0) <= flush) count++;
    if (count === 0) return;
    flushes.splice(0, count);
    for (const stream of this.#unwritten.splice(0, count)) stream.receiver?.written?.();
  }

  /** Cancels all requests when the connection is closed. */
  cancelAll(): void {
    for (const stream of this.table.all()) this.#cancel(stream);
    this.#unwrittenFlushes.length = 0;
    for (const stream of this.#unwritten.splice(0)) stream.receiver?.cancel();
  }

  /** Processes a whole header block: it begins a request, or ends one. */
  headerBlock(id: number, endStream: boolean, buffer: Buffer, start: number, end: number): void {
    if (id <= this.#lastStreamId) {
      this.#trailers(
        id,
        endStream,
        readTrailerBlock(this.#blocks.readFields(buffer, start, end), this.#requests.limits.maxTrailers),
      );
      return;
    }
    this.#lastStreamId = id;
    const block = this.#blocks.read(buffer, start, end);
    if (this.isClosed) {
      // The peer has received the rejection of the request; its further frames may still arrive.
      this.#recordReset(id);
      this.permitLate(this.windows.streamWindowBytes);
    } else {
      this.#open(id, endStream, block);
    }
  }

  #open(id: number, endStream: boolean, block: RequestBlock<Head>): void {
    const { limits, handler, earlyResets } = this.#requests;
    if (block.kind === "malformed" || (endStream && announcesBody(block))) {
      earlyResets.count();
      this.#rejectRequest(id, ErrorCode.ProtocolError);
      return;
    }
    if (this.table.size + this.#cancelledInProgress >= limits.maxConcurrentStreams) {
      // A correct client may open more streams than allowed until it has read the server's SETTINGS.
      this.idleFrames.count();
      this.#rejectRequest(id, ErrorCode.RefusedStream);
      return;
    }
    const stream = new ServerStream(id, this);
    stream.isInputComplete = endStream;
    this.open(stream);
    if (block.kind === "tooLarge") {
      if (handler.rejectTooLarge === undefined) stream.respondHeadersOnly(headersTooLarge);
      else handler.rejectTooLarge(stream, block.fields);
      return;
    }
    stream.remainingBytes = block.contentLength;
    stream.receiver = handler.open(stream, block.head);
    if (endStream) this.#deliver(stream, noBytes, true, noFields);
  }

  /** Rejects a request that has no stream. */
  #rejectRequest(id: number, code: ErrorCode): void {
    this.#reset(id, code);
    this.permitLate(this.windows.streamWindowBytes);
  }

  #reset(id: number, code: ErrorCode): void {
    this.writer.rstStream(id, code);
    this.#recordReset(id);
  }

  #trailers(id: number, endStream: boolean, block: TrailerBlock): void {
    const stream = this.table.get(id);
    if (stream === undefined) {
      this.#requireReset(id);
      this.idleFrames.count();
    } else if (stream.isInputComplete) {
      this.failed(stream, ErrorCode.StreamClosed);
    } else if (!endStream || block.kind === "malformed") {
      this.failed(stream, ErrorCode.ProtocolError);
    } else if (block.kind === "tooLarge") {
      stream.isInputComplete = true;
      if (stream.receiver?.trailersTooLarge === undefined) this.failed(stream, ErrorCode.ProtocolError);
      else stream.receiver.trailersTooLarge();
      stream.onInputEnd();
    } else {
      this.#deliver(stream, noBytes, true, block.fields);
    }
  }

  protected streamOf(id: number): ServerStream | undefined {
    this.assertOpened(id, "DATA");
    const stream = this.table.get(id);
    if (stream === undefined) this.#requireReset(id);
    return stream;
  }

  protected assertOpened(id: number, frame: string): void {
    // This side opens no streams, so those with an even identifier are always idle (§5.1).
    if (id > this.#lastStreamId || (id & 1) === 0) {
      throw new ConnectionError(ErrorCode.ProtocolError, `${frame} on a stream that is not open`);
    }
  }

  protected deliver(stream: ServerStream, buffer: Buffer, start: number, end: number, isLast: boolean): void {
    this.#deliver(stream, buffer.subarray(start, end), isLast, noFields);
  }

  /** Delivers body bytes, unless they contradict content-length (§8.1.1). */
  #deliver(stream: ServerStream, chunk: Buffer, isLast: boolean, trailers: readonly string[]): void {
    stream.isInputComplete = isLast;
    if (!stream.countInput(chunk.length, isLast)) {
      this.failed(stream, ErrorCode.ProtocolError);
      return;
    }
    stream.receiver?.data(chunk, isLast, trailers);
    if (isLast) stream.onInputEnd();
  }

  rstStream(id: number): void {
    this.assertOpened(id, "RST_STREAM");
    const stream = this.table.get(id);
    if (stream === undefined) {
      // The response crossed the RST_STREAM.
      this.idleFrames.count();
      return;
    }
    // Counts work that was started without need. After a complete request, a reset is the normal way to stop waiting.
    if (!stream.isInputComplete) this.#requests.earlyResets.count();
    this.#requests.resets?.count();
    this.#cancel(stream);
    this.#endWhenIdle();
  }

  failed(stream: ServerStream, code: ErrorCode): void {
    this.#requests.earlyResets.count();
    this.#reset(stream.id, code);
    this.#cancel(stream);
    this.#endWhenIdle();
  }

  #cancel(stream: ServerStream): void {
    this.close(stream);
    this.#cancelledInProgress++;
    stream.cancel();
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
    if (this.table.size === 0) this.#requests.onIdle();
  }
}
