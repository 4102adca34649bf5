/**
 * The streams of one connection of a client: opens and ends them (RFC 9113 §5, §6.1, §6.4), and queues requests until the
 * peer accepts them.
 */
import { assertProtocol } from "../assert-protocol.ts";
import { ErrorCode } from "../frame.ts";
import { HeaderBlockReader } from "../header-block-reader.ts";
import type { PeerSettings } from "../settings.ts";
import { Streams, type StreamsOptions } from "../streams.ts";
import { type ClientLimits, maxHeaderListBytes } from "./client-limits.ts";
import type { ClientHost, ClientStream } from "./client-stream.ts";
import { readResponseBlock, type ResponseBlock, type ResponseHead } from "./response-block.ts";

/** The connection that carries the streams, and its bounds. */
export interface ClientStreamsOptions<Head> extends StreamsOptions {
  /** Takes the needed data from a head or trailers. Must be pure: equal blocks are read once. */
  readonly readHead: (head: ResponseHead) => Head;
  /** The bound for unsent bytes, and the last stream identifier. */
  readonly limits: ClientLimits;
  /** The last stream has ended. */
  readonly onIdle: () => void;
  /** All stream identifiers are used up. */
  readonly onStreamIdsExhausted: () => void;
  /** An open stream has timed out. */
  readonly onTimeout: () => void;
}

/**
 * Further frames without progress that each stream permits: PING and WINDOW_UPDATE come with it, a late response after
 * it.
 */
const idleFramesPerStream = 8;

/** The streams of one connection. Methods that handle frames throw `ConnectionError` if the peer violates HTTP/2. */
export class ClientStreams<Head> extends Streams<ClientStream<Head>> implements ClientHost {
  readonly #client: ClientStreamsOptions<Head>;
  readonly #blocks: HeaderBlockReader<ResponseBlock<Head>>;
  /** Requests without a stream, in order: before the peer's settings arrive, and while the peer accepts no more. */
  readonly #queue = new Set<ClientStream<Head>>();
  #hasSettings = false;
  #nextStreamId = 1;
  #maxConcurrentStreams = Infinity;

  constructor(options: ClientStreamsOptions<Head>) {
    super(options);
    this.#client = options;
    this.#blocks = new HeaderBlockReader(maxHeaderListBytes, (fields, isTooLarge) =>
      readResponseBlock(isTooLarge ? undefined : fields, options.readHead),
    );
  }

  /** Sends the request, now or when the peer accepts it. */
  start(stream: ClientStream<Head>): void {
    if (this.writer.waitingBytes > this.#client.limits.maxWaitingBytes) {
      stream.unprocessed("the service does not read its calls");
      return;
    }
    stream.host = this;
    if (this.#canOpen) this.#open(stream);
    else this.#queue.add(stream);
  }

  get #canOpen(): boolean {
    return this.#hasSettings && this.table.size < this.#maxConcurrentStreams;
  }

  #open(stream: ClientStream<Head>): void {
    stream.id = this.#nextStreamId;
    this.#nextStreamId += 2;
    this.open(stream);
    stream.opened(this);
    if (this.#nextStreamId > this.#client.limits.maxStreamId) this.#client.onStreamIdsExhausted();
  }

  #openQueued(): void {
    for (const stream of this.#queue) {
      if (!this.#canOpen) return;
      this.#queue.delete(stream);
      this.#open(stream);
    }
  }

  ended(stream: ClientStream<Head>, hasTimedOut: boolean): void {
    this.#queue.delete(stream);
    if (this.table.get(stream.id) !== stream) return;
    stream.drop(this);
    this.close(stream);
    this.idleFrames.replenish(idleFramesPerStream);
    if (hasTimedOut) {
      this.writer.rstStream(stream.id, ErrorCode.Cancel);
      this.#client.onTimeout();
    }
    this.#openQueued();
    if (this.table.size === 0) this.#client.onIdle();
  }

  /** Applies the peer's settings. */
  apply({ initialWindowBytes, maxConcurrentStreams }: PeerSettings): void {
    this.#hasSettings = true;
    this.#maxConcurrentStreams = maxConcurrentStreams ?? this.#maxConcurrentStreams;
    if (initialWindowBytes !== undefined) this.changeInitialWindow(initialWindowBytes);
    this.#openQueued();
  }

  /** Processes a whole header block: an interim or final head, or trailers. */
  headerBlock(id: number, endStream: boolean, buffer: Buffer, start: number, end: number): void {
    // Blocks of ended streams are decoded too, to keep the HPACK table in sync.
    const block = this.#blocks.read(buffer, start, end);
    const stream = this.streamOf(id);
    if (stream === undefined) return;
    if (block.kind === "malformed") {
      stream.fail(ErrorCode.ProtocolError, `a response with malformed headers: ${block.reason}`);
      return;
    }
    const { status, head } = block;
    const isTrailers = stream.hasHead;
    if (isTrailers ? status !== 0 || !endStream : status === 0) {
      stream.fail(ErrorCode.ProtocolError, "a response whose headers are out of place");
    } else if (endStream || isTrailers || status >= 200) {
      stream.hasHead = true;
      stream.received(head, status);
      if (endStream) stream.endInput();
    } else {
      // An interim response (1xx): the final one follows.
      this.idleFrames.count();
    }
  }

  protected deliver(stream: ClientStream<Head>, buffer: Buffer, start: number, end: number, isLast: boolean): void {
    if (!stream.hasHead) {
      stream.fail(ErrorCode.ProtocolError, "a response that begins without headers");
      return;
    }
    stream.data(buffer, start, end);
    if (isLast && this.table.get(stream.id) === stream) stream.endInput();
  }

  rstStream(id: number, code: number): void {
    const stream = this.streamOf(id);
    if (stream === undefined) return;
    // The stream is closed, so nothing more is sent on it.
    if (code === ErrorCode.RefusedStream) {
      stream.unprocessed("the service rejected the call without processing it (REFUSED_STREAM)");
    } else {
      stream.wasReset(code);
    }
  }

  /** Returns requests that the peer will not process, to be sent on another connection. */
  returnUnprocessed(lastStreamId: number): void {
    for (const stream of this.table.all()) {
      if (stream.id > lastStreamId) stream.unprocessed("the service is closing the connection");
    }
  }

  returnQueued(reason: string): void {
    for (const stream of this.#queue) stream.unprocessed(reason);
  }

  /** Ends all streams: the connection is closed. */
  connectionLost(reason: string): void {
    for (const stream of this.table.all()) stream.connectionLost(reason);
  }

  /** Returns undefined for an ended stream, whose last frames may still arrive. */
  protected streamOf(id: number): ClientStream<Head> | undefined {
    this.assertOpened(id);
    const stream = this.table.get(id);
    if (stream === undefined) this.idleFrames.count();
    return stream;
  }

  protected assertOpened(id: number): void {
    assertProtocol(id < this.#nextStreamId && (id & 1) === 1, "a frame on a stream that was never opened");
  }
}
