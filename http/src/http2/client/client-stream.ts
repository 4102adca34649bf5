/** One request of a client and its response. The subclass sends the request and receives the response. */
import { ErrorCode } from "../frame.ts";
import { Http2Stream, type StreamHost } from "../http2-stream.ts";

/** The interface of the connection's streams for one of them. */
export interface ClientHost extends StreamHost {
  /** Called once, when the subclass has ended the stream. After a timeout the peer gets RST_STREAM, and must prove that it lives. */
  ended(stream: Http2Stream, hasTimedOut: boolean): void;
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
  /** Whether all of the request has been sent. */
  hasSentEnd = false;
  /** Whether each side may go on after the end of the other (RFC 8441 §5). */
  isTunnel = false;

  constructor() {
    super(0);
  }

  /** The stream is open: sends the request. */
  abstract opened(host: ClientHost): void;
  /** Receives the final head. */
  abstract receivedHead(head: Head, status: number): void;
  /** Receives the trailers, if there are any. */
  abstract receivedTrailers(trailers: Head): void;
  /** Receives a part of the body, which is not empty, and valid during the call only. */
  abstract data(buffer: Buffer, start: number, end: number): void;
  /** The response is complete. */
  abstract completed(): void;
  /** The response violates HTTP. The peer gets RST_STREAM. */
  abstract malformed(reason: string): void;
  /** The peer has reset the stream, and may have processed the request. */
  abstract wasReset(code: number): void;
  /** The peer has not processed the request. */
  abstract unprocessed(reason: string): void;
  /** The connection is closed; the peer may have processed the request. */
  abstract connectionLost(reason: string): void;

  /** Receives an interim head (1xx). */
  abstract receivedInterimHead(head: Head, status: number): void;

  /** Called every `sweepMs` while the stream is open. */
  sweep(): void {
    // Some have a deadline instead.
  }

  /**
   * Returns the length of the body of a response; undefined for any (RFC 9110 §6.4.1).
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
    if (this.isOpen) this.host?.writer.rstStream(this.id, code);
  }

  protected onOutputEnd(): void {
    this.hasSentEnd = true;
  }

  /** Processes the end of the response. A request that was not sent completely is not needed any more. */
  endInput(): void {
    this.isInputComplete = true;
    if (!this.hasSentEnd && !this.isTunnel) this.reset(ErrorCode.Cancel);
    this.completed();
  }

  /** Drops what waits for a window, and what is held, at the end. */
  close(host: StreamHost): void {
    this.isOpen = false;
    this.dropWaiting(host);
    this.releaseInput(host);
  }
}
