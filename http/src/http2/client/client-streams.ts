/**
 * The streams of one connection of a client: opens and ends them (RFC 9113 §5, §6.1, §6.4), and queues requests until
 * the peer accepts them.
 */
import { assertProtocol } from "../assert-protocol.ts";
import { ErrorCode, Flag } from "../frame.ts";
import { HeaderBlockReader } from "../header-block-reader.ts";
import type { PeerSettings } from "../settings.ts";
import type { Http2Stream } from "../http2-stream.ts";
import { Streams, type StreamsOptions } from "../streams.ts";
import { isUsedUp, WindowShares } from "../window-shares.ts";
import type { ClientLimits } from "./client-limits.ts";
import type { ClientHost, ClientStream } from "./client-stream.ts";
import { DelayedResets } from "./delayed-resets.ts";
import type { ResetBudget } from "./reset-budget.ts";
import { UnreadUploads } from "./unread-uploads.ts";
import { readResponseBlock, type ResponseBlock, type ResponseHead } from "./response-block.ts";

/** The connection that carries the streams, and its bounds. */
export interface ClientStreamsOptions<Head> extends StreamsOptions {
  /** Extracts the needed data from a head or trailers. It must be pure, because it is called once for equal blocks. */
  readonly readHead: (head: ResponseHead) => Head;
  /** The bounds of heads and unsent bytes, and the last stream identifier. */
  readonly limits: ClientLimits;
  /** Called when the last stream has ended. */
  readonly onIdle: () => void;
  /** Called when all stream identifiers are used up. */
  readonly onStreamIdsExhausted: () => void;
  /** Called when an open stream has timed out. */
  readonly onTimeout: () => void;
  /** Bounds the streams that this side resets; undefined: no bound. */
  readonly resets: ResetBudget | undefined;
  /** Called when no more may be reset. */
  readonly onManyResets: () => void;
}

/** A well-formed block. */
type ValidBlock<Head> = Extract<ResponseBlock<Head>, { readonly kind: "head" }>;

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
  readonly #resets: DelayedResets;
  readonly #unreadUploads = new UnreadUploads();
  readonly #shares = new WindowShares();
  #hasSettings = false;
  #nextStreamId = 1;
  #maxConcurrentStreams = Infinity;
  /** Whether the peer accepts extended CONNECT (RFC 8441 §3). */
  allowsConnect = false;
  /** The number of frames with a part of a response. */
  received = 0;
  announcedBytes = 0;

  constructor(options: ClientStreamsOptions<Head>) {
    super(options);
    this.#client = options;
    this.#resets = new DelayedResets(options.writer, options.resets);
    this.#blocks = new HeaderBlockReader(options.limits.maxHeaderListBytes, (fields, isTooLarge) =>
      readResponseBlock(isTooLarge ? undefined : fields, options.readHead),
    );
  }

  /** The maximum number of open streams that the peer has set; Infinity if it has set none. */
  get maxConcurrentStreams(): number {
    return this.#maxConcurrentStreams;
  }

  /**
   * Whether little is left of the window of the connection, or will be once the uploads in progress have come. Peers
   * may keep up to half of it.
   */
  get isCrowded(): boolean {
    return this.sendWindowBytes - this.waitingBytes - this.announcedBytes < this.largestWindowBytes / 4;
  }

  /** Sends the request when the peer accepts it. */
  start(stream: ClientStream<Head>): void {
    if (this.writer.waitingBytes > this.#client.limits.maxWaitingBytes) {
      stream.unprocessed("the server does not read its requests");
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
    stream.isOpen = true;
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

  joinShare(stream: Http2Stream, client: string | undefined): void {
    stream.share = this.#shares.join(client);
  }

  #leaveShare(stream: Http2Stream): void {
    if (stream.share === undefined) return;
    this.#shares.leave(stream.share, stream.unreturnedBytes);
    stream.share = undefined;
    // Others may use what it leaves.
    this.resumeWaiting();
  }

  ended(stream: ClientStream<Head>, hasTimedOut: boolean): void {
    this.#queue.delete(stream);
    if (!stream.isOpen) return;
    stream.close(this);
    this.close(stream);
    this.#leaveShare(stream);
    if (stream.isInputComplete) this.#client.resets?.onResponse();
    this.idleFrames.replenish(idleFramesPerStream);
    if (hasTimedOut) {
      this.reset(stream, ErrorCode.Cancel);
      this.#client.onTimeout();
    }
    this.#openQueued();
    if (this.table.size === 0) this.#client.onIdle();
  }

  reset({ id }: ClientStream<Head>, code: ErrorCode): void {
    if (!this.#resets.add(id, code)) this.#client.onManyResets();
  }

  /** Lets the open streams check their timeouts. Called every `sweepMs`. */
  sweep(): void {
    this.#resets.sweep();
    this.#endUnreadUploads();
    for (const stream of this.table.all()) stream.sweep();
  }

  #endUnreadUploads(): void {
    const window = {
      streamBytes: this.peerInitialWindowBytes,
      largestBytes: this.largestWindowBytes,
      openings: this.windowOpenings,
      waiting: this.waitingForConnection,
      isExhausted: isUsedUp(this.sendWindowBytes),
    };
    const uploads = this.#unreadUploads.sweep(window, this.table.all());
    for (const upload of uploads) {
      // This reset is not delayed: it makes the peer open the window.
      this.writer.rstStream(upload.id, ErrorCode.Cancel);
      upload.notRead("the server does not read the request, and others wait");
    }
    if (uploads.length > 0) this.orderWaiting();
  }

  /** Applies the peer's settings. */
  apply({ initialWindowBytes, maxConcurrentStreams, enablesConnect = this.allowsConnect }: PeerSettings): void {
    assertProtocol(enablesConnect || !this.allowsConnect, "SETTINGS: extended CONNECT cannot be revoked");
    this.#hasSettings = true;
    this.allowsConnect = enablesConnect;
    this.#maxConcurrentStreams = maxConcurrentStreams ?? this.#maxConcurrentStreams;
    if (initialWindowBytes !== undefined) this.changeInitialWindow(initialWindowBytes);
    this.#openQueued();
  }

  override data(flags: number, id: number, buffer: Buffer, start: number, end: number): void {
    if ((flags & Flag.EndStream) !== 0) this.#resets.ended(id);
    super.data(flags, id, buffer, start, end);
  }

  /** Processes a whole header block: an interim or final head, or trailers. */
  headerBlock(id: number, endStream: boolean, buffer: Buffer, start: number, end: number): void {
    // Blocks of ended streams are decoded too, to keep the HPACK table in sync.
    const block = this.#blocks.read(buffer, start, end);
    const stream = this.streamOf(id);
    if (stream === undefined) {
      if (endStream) this.#resets.ended(id);
      this.idleFrames.count();
      return;
    }
    this.received++;
    if (stream.isInputComplete) {
      stream.fail(ErrorCode.StreamClosed, "headers after the end of their stream");
    } else if (block.kind === "malformed") {
      stream.fail(ErrorCode.ProtocolError, `a response with malformed headers: ${block.reason}`);
    } else if (stream.hasHead) {
      this.#trailers(stream, block, endStream);
    } else if (block.status >= 200) {
      this.#head(stream, block, endStream);
    } else {
      this.#interimHead(stream, block, endStream);
    }
  }

  /** Processes a head before the final one (§8.1). HTTP/2 has no 101 (§8.6). */
  #interimHead(stream: ClientStream<Head>, { head, status }: ValidBlock<Head>, endStream: boolean): void {
    if (status < 100 || status === 101 || endStream) {
      stream.fail(ErrorCode.ProtocolError, "a response whose headers are out of place");
      return;
    }
    this.idleFrames.count();
    stream.receivedInterimHead(head, status);
  }

  #head(stream: ClientStream<Head>, { head, status, contentLength }: ValidBlock<Head>, endStream: boolean): void {
    stream.hasHead = true;
    stream.remainingBytes = stream.bodyLength(status, contentLength);
    if (endStream && !stream.countInput(0, true)) {
      stream.fail(ErrorCode.ProtocolError, otherLength);
      return;
    }
    stream.receivedHead(head, status);
    if (endStream && stream.isOpen) stream.endInput();
  }

  #trailers(stream: ClientStream<Head>, { head, status }: ValidBlock<Head>, endStream: boolean): void {
    if (status !== 0 || !endStream) {
      stream.fail(ErrorCode.ProtocolError, "a response whose headers are out of place");
    } else if (!stream.countInput(0, true)) {
      stream.fail(ErrorCode.ProtocolError, otherLength);
    } else {
      stream.receivedTrailers(head);
      if (stream.isOpen) stream.endInput();
    }
  }

  protected deliver(stream: ClientStream<Head>, buffer: Buffer, start: number, end: number, isLast: boolean): void {
    this.received++;
    if (!stream.hasHead) {
      stream.fail(ErrorCode.ProtocolError, "a response that begins without headers");
      return;
    }
    if (!stream.countInput(end - start, isLast)) {
      stream.fail(ErrorCode.ProtocolError, otherLength);
      return;
    }
    if (start < end) stream.data(buffer, start, end);
    if (isLast && stream.isOpen) stream.endInput();
  }

  rstStream(id: number, code: number): void {
    const stream = this.streamOf(id);
    if (stream === undefined) {
      this.#resets.ended(id);
      this.idleFrames.count();
      return;
    }
    // The peer has closed the stream, so RST_STREAM is not sent.
    if (code === ErrorCode.RefusedStream && !stream.hasHead) {
      stream.unprocessed("the server rejected the request without processing it (REFUSED_STREAM)", true);
    } else {
      stream.wasReset(code);
      if (code !== ErrorCode.NoError && !this.#resets.countOfPeer()) this.#client.onManyResets();
    }
  }

  /** Returns requests that the peer will not process, to be sent on another connection. */
  returnUnprocessed(lastStreamId: number): void {
    for (const stream of this.table.all()) {
      if (stream.id > lastStreamId) stream.unprocessed("the server is closing the connection");
    }
  }

  /** Returns the requests that have no stream, to be sent on another connection. */
  returnQueued(reason: string): void {
    for (const stream of this.#queue) stream.unprocessed(reason);
  }

  /** Ends all streams, because the connection is closed. @param code of the peer's GOAWAY; undefined for none. */
  connectionLost(reason: string, code: number | undefined): void {
    this.stopWaiting();
    for (const stream of this.table.all()) stream.connectionLost(reason, code);
  }

  /** Returns undefined for an ended stream, whose last frames may still arrive. */
  protected streamOf(id: number): ClientStream<Head> | undefined {
    this.assertOpened(id);
    return this.table.get(id);
  }

  protected assertOpened(id: number): void {
    assertProtocol(id < this.#nextStreamId && (id & 1) === 1, "a frame on a stream that was never opened");
  }
}

const otherLength = "a body of another length than its content-length";
