/** One request of a client and its response. The subclass sends the request and receives the response. */
import { ErrorCode } from "../frame.ts";
import { Http2Stream, type StreamHost } from "../http2-stream.ts";

/** The interface of `ClientStreams` for a single stream. */
export interface ClientHost extends StreamHost {
  /** Bytes that requests have announced by a content-length, and whose sources have not brought them yet. */
  announcedBytes: number;
  /** Called once, when the subclass has ended the stream. After a timeout, the peer gets RST_STREAM and a PING. */
  ended(stream: Http2Stream, hasTimedOut: boolean): void;
  /** The stream may send a body. It gets a share of the window for the requests of its client. */
  joinShare(stream: Http2Stream, client: string | undefined): void;
  /** Sends RST_STREAM. */
  reset(stream: Http2Stream, code: ErrorCode): void;
}

/**
 * A stream from its queue to its end. Exactly one of `completed`, `malformed`, `wasReset`, `unprocessed` and
 * `connectionLost` is called, unless the subclass ends the stream before by `host.ended`.
 */
export abstract class ClientStream<Head> extends Http2Stream {
  /** The connection that carries the stream; absent before it is started. */
  host: ClientHost | undefined;
  /** Whether the stream has an identifier, and has not ended. */
  isOpen = false;
  /** Whether the final head of the response has been received. */
  hasHead = false;
  /** Whether the whole request has been sent. */
  hasSentEnd = false;
  /** Whether each side may continue after the end of the other (RFC 8441 §5). */
  isTunnel = false;

  constructor() {
    super(0);
  }

  /** Sends the request. Called when the stream is open. */
  abstract opened(host: ClientHost): void;
  /** Receives the final head. */
  abstract receivedHead(head: Head, status: number): void;
  /** Receives the trailers, if there are any. */
  abstract receivedTrailers(trailers: Head): void;
  /** Receives a part of the body, which is not empty, and valid during the call only. */
  abstract data(buffer: Buffer, start: number, end: number): void;
  /** Called when the response is complete. */
  abstract completed(): void;
  /** Called when the response violates HTTP. The peer gets RST_STREAM. */
  abstract malformed(reason: string): void;
  /** Called when the peer has reset the stream. It may have processed the request. */
  abstract wasReset(code: number): void;
  /** Called when the stream ends and the peer has not processed the request. */
  abstract unprocessed(reason: string, isStreamRejected?: boolean): void;
  /**
   * Called when the connection is closed. The peer may have processed the request.
   *
   * @param code of its GOAWAY; undefined if it has sent none.
   */
  abstract connectionLost(reason: string, code: number | undefined): void;

  /** Called when the peer does not read the request, and others wait for the window of the connection. */
  notRead(reason: string): void {
    this.connectionLost(reason, undefined);
  }

  /** Receives an interim head (1xx). */
  abstract receivedInterimHead(head: Head, status: number): void;

  /** Called every `sweepMs` while the stream is open. */
  sweep(): void {
    // A subclass may have a deadline instead.
  }

  /**
   * Returns the length of the body of a response; undefined if any length is permitted (RFC 9110 §6.4.1).
   *
   * @param announced its content-length; undefined if it has none.
   */
  bodyLength(status: number, announced: number | undefined): number | undefined {
    return status === 204 || status === 304 ? 0 : announced;
  }

  fail(code: ErrorCode, reason: string): void {
    this.reset(code);
    this.malformed(reason);
  }

  /** Sends RST_STREAM, if the stream is open. The subclass ends the stream. */
  protected reset(code: ErrorCode): void {
    if (this.isOpen) this.host?.reset(this, code);
  }

  protected onOutputEnd(): void {
    this.hasSentEnd = true;
  }

  /** Processes the end of the response. If the request was not sent completely, the stream is reset. */
  endInput(): void {
    this.isInputComplete = true;
    if (!this.hasSentEnd && !this.isTunnel) this.reset(ErrorCode.Cancel);
    this.completed();
  }

  /** Drops the bytes that wait for a window, and the buffered input. Called at the end of the stream. */
  close(host: ClientHost): void {
    this.isOpen = false;
    this.dropWaiting(host);
    this.releaseInput(host);
  }
}
