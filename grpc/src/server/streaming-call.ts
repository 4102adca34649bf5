/** One streaming call on its stream: messages in both directions, in any order, until either side ends. */
import { ErrorCode } from "@gatewayproxy/http/http2/frame";
import type { ServerStream, StreamReceiver } from "@gatewayproxy/http/http2/server/server-stream";
import type { CallContext } from "./call-context.ts";
import {
  decompressMessage,
  frameMessage,
  memoryOf,
  type MessageEncoding,
  MessageReader,
  tooManyPartialBytes,
} from "../message-framing.ts";
import type { MessageReceiver, MessageSink, StreamingMethod } from "./method.ts";
import type { QueuedTurn } from "./turn-queue.ts";
import { errorResponse, errorTrailers, GrpcError, okTrailers, responseHeaders, StatusCode } from "../status.ts";

/** Requests of reflection and health checks contain only names. */
const maxDecompressedBytes = 16_384;
/** Bytes of unsent responses beyond which no further message is read. */
const maxUnsentBytes = 1_048_576;
/** Maximum number of messages in the queue. */
const maxWaitingMessages = 64;

/** A queued message. */
interface PendingMessage {
  readonly bytes: Buffer;
  readonly isCompressed: boolean;
}

/**
 * A streaming call. It reads a message at once if it is the first of its chunk and not compressed. Every other message
 * waits for a turn of the event loop, because one chunk of a socket may contain thousands of messages, and a few
 * compressed bytes may expand to many. Calls take turns, so none delays the others. Queued messages are charged like
 * incomplete ones.
 */
export class StreamingCall implements StreamReceiver, MessageSink, QueuedTurn {
  readonly #stream: ServerStream;
  readonly #context: CallContext;
  readonly #encoding: MessageEncoding;
  readonly #reader: MessageReader;
  readonly #receiver: MessageReceiver;
  readonly #onEnd: (call: StreamingCall) => void;
  readonly #queue: PendingMessage[] = [];
  /** Whether the client has sent its last message. */
  #isComplete = false;
  #hasHeaders = false;
  #hasEnded = false;

  /** `onEnd` is called once, when the call has ended. */
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
    if (this.#hasEnded) {
      return;
    }
    try {
      let isFirst = true;
      this.#reader.read(chunk, (message, isCompressed) => {
        if (this.#hasEnded) return;
        if (isFirst && !isCompressed && this.#queue.length === 0) this.#receive(message);
        else this.#enqueue(message, isCompressed);
        isFirst = false;
      });
      this.#isComplete = isLast;
      this.#endIfComplete();
    } catch (error) {
      this.fail(this.#context.statusOf(error));
    }
  }

  takeTurn(): void {
    const message = this.#queue.shift();
    if (message === undefined) {
      return;
    }
    try {
      const { bytes, isCompressed } = message;
      this.#context.bounds.partialBytes.free(memoryOf(bytes.length));
      this.#receive(isCompressed ? this.#decompress(bytes) : bytes);
      if (this.#queue.length > 0) this.#context.turns.add(this);
      this.#endIfComplete();
    } catch (error) {
      this.fail(this.#context.statusOf(error));
    }
  }

  cancel(): void {
    this.#close();
    this.#stream.reset(ErrorCode.Cancel);
  }

  send(message: Uint8Array): void {
    if (this.#hasEnded) {
      return;
    }
    if (!this.#hasHeaders) {
      this.#hasHeaders = true;
      this.#stream.sendHeaders(responseHeaders);
    }
    this.#stream.sendData(frameMessage(message));
  }

  end(): void {
    if (this.#hasEnded) {
      return;
    }
    if (!this.#hasHeaders) {
      this.#stream.sendHeaders(responseHeaders);
    }
    this.#close();
    this.#stream.finish(okTrailers);
  }

  fail(error: GrpcError): void {
    if (this.#hasEnded) {
      return;
    }
    this.#close();
    if (this.#hasHeaders) {
      this.#stream.finish(errorTrailers(error));
    } else {
      this.#stream.respondHeadersOnly(errorResponse(error));
    }
  }

  #receive(message: Buffer): void {
    this.#receiver.message(message);
    this.#boundResponses();
  }

  #enqueue(message: Buffer, isCompressed: boolean): void {
    if (this.#queue.length === maxWaitingMessages) throw tooManyUnread();
    if (!this.#context.bounds.partialBytes.reserve(memoryOf(message.length))) throw tooManyPartialBytes();
    const bytes = Buffer.allocUnsafeSlow(message.length);
    message.copy(bytes);
    this.#queue.push({ bytes, isCompressed });
    this.#context.turns.add(this);
  }

  #decompress(message: Buffer): Buffer {
    return decompressMessage(
      message,
      this.#encoding,
      Math.min(maxDecompressedBytes, this.#context.bounds.maxMessageBytes),
    );
  }

  /**
   * Throws if too many bytes are unsent: a short message may cause a long response, and a chunk may contain a thousand.
   */
  #boundResponses(): void {
    if (this.#stream.unsentBytes > maxUnsentBytes) throw tooManyUnread();
  }

  #endIfComplete(): void {
    if (!this.#isComplete || this.#queue.length > 0) {
      return;
    }
    if (this.#reader.isWithinMessage) {
      throw new GrpcError(StatusCode.Internal, "the call ended within a message");
    }
    if (!this.#hasEnded) {
      this.#receiver.ended();
    }
  }

  #close(): void {
    if (!this.#hasEnded) {
      this.#hasEnded = true;
      this.#reader.release();
      for (const { bytes } of this.#queue.splice(0)) {
        this.#context.bounds.partialBytes.free(memoryOf(bytes.length));
      }
      this.#receiver.cancelled();
      this.#onEnd(this);
    }
  }
}

function tooManyUnread(): GrpcError {
  return new GrpcError(StatusCode.ResourceExhausted, "too many messages were sent before their responses were read");
}
