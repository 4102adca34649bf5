/** One streaming call on its stream: messages both ways, in any order, until either side ends. */
import { ErrorCode } from "@gatewayproxy/runtime/http2/frame";
import type { ServerStream, StreamReceiver } from "../http2/server-stream.ts";
import type { CallContext } from "./call-context.ts";
import type { MessageEncoding } from "./call-head.ts";
import { decompressMessage, frameMessage, MessageReader } from "./message-framing.ts";
import type { MessageReceiver, MessageSink, StreamingMethod } from "./method.ts";
import { errorResponse, errorTrailers, GrpcError, okTrailers, responseHeaders, StatusCode } from "./status.ts";

/** Requests of reflection and health checks are names. */
const maxDecompressedBytes = 16_384;
/** Answers that may wait to be sent before the next message is read. */
const maxUnsentBytes = 1_048_576;

export class StreamingCall implements StreamReceiver, MessageSink {
  readonly #stream: ServerStream;
  readonly #context: CallContext;
  readonly #encoding: MessageEncoding;
  readonly #reader: MessageReader;
  readonly #receiver: MessageReceiver;
  readonly #onEnd: (call: StreamingCall) => void;
  #hasHeaders = false;
  #isOver = false;

  /** `onEnd` is called once, when the call is over. */
  constructor(
    stream: ServerStream,
    encoding: MessageEncoding,
    method: StreamingMethod,
    context: CallContext,
    onEnd: (call: StreamingCall) => void,
  ) {
    this.#stream = stream;
    this.#encoding = encoding;
    this.#context = context;
    this.#onEnd = onEnd;
    this.#reader = new MessageReader(context.bounds);
    this.#receiver = method.open(this);
  }

  data(chunk: Buffer, isLast: boolean): void {
    if (this.#isOver) {
      return;
    }
    try {
      this.#reader.read(chunk, (message, isCompressed) => {
        if (!this.#isOver) {
          this.#receiver.message(isCompressed ? this.#decompress(message) : message);
          this.#boundAnswers();
        }
      });
      if (isLast) {
        this.#ended();
      }
    } catch (error) {
      this.fail(this.#context.statusOf(error));
    }
  }

  cancel(): void {
    this.#over();
    this.#stream.reset(ErrorCode.Cancel);
  }

  send(message: Uint8Array): void {
    if (this.#isOver) {
      return;
    }
    if (!this.#hasHeaders) {
      this.#hasHeaders = true;
      this.#stream.sendHeaders(responseHeaders);
    }
    this.#stream.sendData(frameMessage(message));
  }

  end(): void {
    if (this.#isOver) {
      return;
    }
    if (!this.#hasHeaders) {
      this.#stream.sendHeaders(responseHeaders);
    }
    this.#over();
    this.#stream.finish(okTrailers);
  }

  fail(error: GrpcError): void {
    if (this.#isOver) {
      return;
    }
    this.#over();
    if (this.#hasHeaders) {
      this.#stream.finish(errorTrailers(error));
    } else {
      this.#stream.respondHeadersOnly(errorResponse(error));
    }
  }

  #decompress(message: Buffer): Buffer {
    return decompressMessage(
      message,
      this.#encoding,
      Math.min(maxDecompressedBytes, this.#context.bounds.maxMessageBytes),
    );
  }

  /** A short message may ask for a long answer, and one chunk of a socket holds a thousand. */
  #boundAnswers(): void {
    if (this.#stream.unsentBytes > maxUnsentBytes) {
      throw new GrpcError(StatusCode.ResourceExhausted, "too many messages were sent ahead of their answers");
    }
  }

  #ended(): void {
    if (this.#reader.isWithinMessage) {
      throw new GrpcError(StatusCode.Internal, "the call ended within a message");
    }
    if (!this.#isOver) {
      this.#receiver.ended();
    }
  }

  #over(): void {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#reader.release();
      this.#receiver.cancelled();
      this.#onEnd(this);
    }
  }
}
