/** One unary call on its stream: gathers the message, runs the method, answers. */
import { ErrorCode } from "@gatewayproxy/runtime/http2/frame";
import type { ServerStream, StreamReceiver } from "../http2/server-stream.ts";
import type { CallContext } from "./call-context.ts";
import type { CallHead } from "./call-head.ts";
import type { Expirable } from "./deadlines.ts";
import { decompressMessage, frameMessage, memoryOf, MessageReader, noRoom, prefixBytes } from "./message-framing.ts";
import type { UnaryMethod } from "./method.ts";
import type { Turn } from "./turns.ts";
import { errorResponse, GrpcError, okTrailers, responseHeaders, StatusCode } from "./status.ts";

/** Time for a request that does not come in one piece. */
const incompleteRequestMs = 30_000;

export class UnaryCall implements StreamReceiver, Expirable, Turn {
  readonly #stream: ServerStream;
  readonly #method: UnaryMethod;
  readonly #head: CallHead & { readonly kind: "call" };
  readonly #context: CallContext;
  #reader: MessageReader | undefined;
  #message: Buffer | undefined;
  #isCompressed = false;
  /** What of the message is charged to `partialBytes`. */
  #chargedBytes = 0;
  /** Waits for its turn to be decompressed. */
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
      this.#gather(chunk, isLast);
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

  /** The long way, for a message in pieces, compressed or wrong. */
  #gather(chunk: Buffer, isLast: boolean): void {
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
   * Decompresses and runs, in a turn of its own: compressed, the largest message takes some dozen bytes, and one chunk of a
   * socket would be work for a second.
   */
  takeTurn(): void {
    this.#isQueued = false;
    const message = this.#message;
    this.#release();
    if (this.isDone || message === undefined) {
      // Cancelled or expired meanwhile.
      this.#stream.reset(ErrorCode.Cancel);
      return;
    }
    try {
      this.#run(decompressMessage(message, this.#head.encoding, this.#context.bounds.maxMessageBytes));
    } catch (error) {
      this.#fail(error);
    }
  }

  /** A complete message that has to wait for the end of the call or for its turn. */
  #copyOf(message: Buffer): Buffer {
    const bytes = memoryOf(message.length);
    if (!this.#context.bounds.partialBytes.take(bytes)) throw noRoom();
    this.#chargedBytes = bytes;
    const copy = Buffer.allocUnsafeSlow(message.length);
    message.copy(copy);
    return copy;
  }

  /** Holds nothing of the request any more. */
  #release(): void {
    this.#reader?.release();
    this.#message = undefined;
    this.#context.bounds.partialBytes.give(this.#chargedBytes);
    this.#chargedBytes = 0;
  }

  #run(message: Buffer): void {
    const context = this.#context;
    if (!context.enter()) {
      this.#fail(new GrpcError(StatusCode.Unavailable, "too many calls are in progress"));
      return;
    }
    this.#isRunning = true;
    try {
      const answer = this.#method.call(message);
      if (answer instanceof Promise) {
        if (this.#head.timeoutMs !== undefined) {
          context.deadlines.watch(this, this.#head.timeoutMs);
        }
        answer.then(
          (bytes) => this.#answer(bytes),
          (error: unknown) => this.#reject(error),
        );
      } else {
        this.#answer(answer);
      }
    } catch (error) {
      this.#reject(error);
    }
  }

  #answer(message: Uint8Array): void {
    this.#leave();
    this.isDone = true;
    // On a stream that was cancelled or has expired this only says that the work is done.
    this.#stream.respond(responseHeaders, frameMessage(message), okTrailers);
  }

  #reject(error: unknown): void {
    this.#leave();
    this.#fail(error);
  }

  #leave(): void {
    this.#isRunning = false;
    this.#context.leave();
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
