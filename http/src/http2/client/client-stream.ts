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
  /** Whether the final head of the response has been received. */
  hasHead = false;
  /** Whether all of the request has been sent. */
  hasSentEnd = false;

  constructor() {
    super(0);
  }

  /** The stream is open: sends the request. */
  abstract opened(host: ClientHost): void;
  /** Receives the final head, and the trailers if there are any. */
  abstract received(head: Head, status: number): void;
  /** Receives a part of the body, which is valid during the call only. */
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

  fail(code: ErrorCode, reason: string): void {
    this.reset(code);
    this.malformed(reason);
  }

  /** Sends RST_STREAM. The subclass ends the stream. */
  protected reset(code: ErrorCode): void {
    this.host?.writer.rstStream(this.id, code);
  }

  protected onOutputEnd(): void {
    this.hasSentEnd = true;
  }

  /** Processes the end of the response. A request that was not sent completely is not needed any more. */
  endInput(): void {
    if (!this.hasSentEnd) this.reset(ErrorCode.Cancel);
    this.completed();
  }

  /** Drops what waits for a window, at the end. */
  drop(host: StreamHost): void {
    this.dropWaiting(host);
  }
}
