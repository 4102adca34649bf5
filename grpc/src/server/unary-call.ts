/** One unary call on its stream: collects the message, runs the method, sends the response. */
import { ErrorCode } from "@gatewayproxy/http/http2/frame";
import type { ServerStream, StreamReceiver } from "@gatewayproxy/http/http2/server/server-stream";
import type { CallContext } from "./call-context.ts";
import type { CallHead } from "./call-head.ts";
import type { Expirable } from "./deadlines.ts";
import {
  decompressMessage,
  frameMessage,
  memoryOf,
  MessageReader,
  tooManyPartialBytes,
  prefixBytes,
} from "../message-framing.ts";
import type { CallState, UnaryMethod } from "./method.ts";
import type { QueuedTurn } from "./turn-queue.ts";
import { errorResponse, GrpcError, okTrailers, responseHeaders, StatusCode } from "../status.ts";

/** Timeout of a request that does not arrive in one chunk, in ms. */
const incompleteRequestMs = 30_000;

const noFields: readonly string[] = [];

/** A unary call. */
export class UnaryCall implements StreamReceiver, Expirable, QueuedTurn, CallState {
  readonly #stream: ServerStream;
  readonly #method: UnaryMethod;
  readonly #head: CallHead & { readonly kind: "call" };
  readonly #context: CallContext;
  #reader: MessageReader | undefined;
  #message: Buffer | undefined;
  #isCompressed = false;
  /** Bytes of the message that are charged to `partialBytes`. */
  #chargedBytes = 0;
  /** Whether the message waits for a turn to be decompressed. */
  #isQueued = false;
  #isRunning = false;
  isDone = false;

  constructor(
    stream: ServerStream,
    head: CallHead & { readonly kind: "call" },
    method: UnaryMethod,
    context: CallContext,
  ) {
    this.#stream = stream;
    this.#head = head;
    this.#method = method;
    this.#context = context;
  }

  data(chunk: Buffer, isLast: boolean): void {
    if (this.isDone) {
      return;
    }
    if (isLast && this.#reader === undefined && isOneMessage(chunk)) {
      this.#run(chunk.subarray(prefixBytes));
      return;
    }
    try {
      this.#collect(chunk, isLast);
    } catch (error) {
      this.#fail(error);
    }
  }

  cancel(): void {
    this.isDone = true;
    this.#release();
    if (!this.#isRunning && !this.#isQueued) {
      this.#stream.reset(ErrorCode.Cancel);
    }
  }

  expire(): void {
    this.#fail(new GrpcError(StatusCode.DeadlineExceeded, "the call was not done within its grpc-timeout"));
  }

  /** Reads a message that is in several chunks, compressed or invalid. This is the slow path. */
  #collect(chunk: Buffer, isLast: boolean): void {
    if (this.#reader === undefined) {
      this.#reader = new MessageReader(this.#context.bounds);
      this.#context.deadlines.watch(this, Math.min(this.#head.timeoutMs ?? Infinity, incompleteRequestMs));
    }
    this.#reader.read(chunk, (message, isCompressed) => {
      if (this.#message !== undefined) {
        throw new GrpcError(StatusCode.Internal, "a unary call has one message, this one sent more");
      }
      this.#isCompressed = isCompressed;
      this.#message = isLast && !isCompressed ? message : this.#copyOf(message);
    });
    if (!isLast) {
      return;
    }
    if (this.#message === undefined || this.#reader.isWithinMessage) {
      throw new GrpcError(StatusCode.Internal, "the call ended before its message was complete");
    }
    if (this.#isCompressed) {
      this.#isQueued = true;
      this.#context.turns.add(this);
    } else {
      const message = this.#message;
      this.#release();
      this.#run(message);
    }
  }

  /**
   * Decompresses the message and runs the method. This takes a separate turn: the largest message compresses to some
   * dozen bytes, so one chunk of a socket could contain work for a second.
   */
  takeTurn(): void {
    this.#isQueued = false;
    const message = this.#message;
    this.#release();
    if (this.isDone || message === undefined) {
      // The call was cancelled or has expired meanwhile.
      this.#stream.reset(ErrorCode.Cancel);
      return;
    }
    try {
      this.#run(decompressMessage(message, this.#head.encoding, this.#context.bounds.maxMessageBytes));
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Copies a complete message that has to wait for the end of the call or for its turn. */
  #copyOf(message: Buffer): Buffer {
    const bytes = memoryOf(message.length);
    if (!this.#context.bounds.partialBytes.reserve(bytes)) throw tooManyPartialBytes();
    this.#chargedBytes = bytes;
    const copy = Buffer.allocUnsafeSlow(message.length);
    message.copy(copy);
    return copy;
  }

  /** Frees the memory of the request. */
  #release(): void {
    this.#reader?.release();
    this.#message = undefined;
    this.#context.bounds.partialBytes.free(this.#chargedBytes);
    this.#chargedBytes = 0;
  }

  #run(message: Buffer): void {
    const context = this.#context;
    if (!context.beginCall()) {
      this.#fail(new GrpcError(StatusCode.Unavailable, "too many calls are in progress"));
      return;
    }
    this.#isRunning = true;
    try {
      const response = this.#method.call(message, this.#head.fields ?? noFields, this);
      if (response instanceof Promise) {
        if (this.#head.timeoutMs !== undefined) {
          context.deadlines.watch(this, this.#head.timeoutMs);
        }
        response.then(
          (bytes) => this.#respond(bytes),
          (error: unknown) => this.#reject(error),
        );
      } else {
        this.#respond(response);
      }
    } catch (error) {
      this.#reject(error);
    }
  }

  #respond(message: Uint8Array): void {
    this.#endCall();
    this.isDone = true;
    // On a stream that was cancelled or has expired, this only marks the work as done.
    this.#stream.respond(responseHeaders, frameMessage(message), okTrailers);
  }

  #reject(error: unknown): void {
    this.#endCall();
    this.#fail(error);
  }

  #endCall(): void {
    this.#isRunning = false;
    this.#context.endCall();
  }

  #fail(error: unknown): void {
    this.isDone = true;
    this.#release();
    this.#stream.respondHeadersOnly(errorResponse(this.#context.statusOf(error)));
  }
}

function isOneMessage(chunk: Buffer): boolean {
  return chunk.length >= prefixBytes && chunk[0] === 0 && chunk.readUInt32BE(1) === chunk.length - prefixBytes;
}
