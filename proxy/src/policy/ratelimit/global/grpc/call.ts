/** One unary call: its message, its progress on its stream, and its end, which happens exactly once. */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";
import { framedLength, outcomeOf, frameMessage } from "./grpc-message.ts";
import type { ResponseFields } from "./response-block.ts";
import { type CallFailure, type CallOutcome, callFailure } from "./unary-client.ts";

/** A call to send. */
export interface PendingCall {
  readonly path: string;
  readonly message: Buffer;
  /** The deadline in the time of `Clock.monotonicMs`. */
  readonly deadlineMs: number;
  readonly onDone: (outcome: CallOutcome) => void;
  /** Called if the server has not processed the call: it may be sent again. */
  readonly onUnprocessed: (failure: CallFailure) => void;
}

/** How a call ended: with a response, by its deadline, or without a response since the connection or stream ended. */
export type Ending = "responded" | "timedOut" | "noResponse";

/** The maximum size of a response in bytes. Longer responses are reset. */
export const maxResponseBytes = 1024 * 1024;

const emptyBuffer = Buffer.alloc(0);

/**
 * A unary call from its queue to its end. `pending.done` or `pending.unprocessed` is called once, at the latest at the
 * deadline.
 */
export class Call {
  readonly pending: PendingCall;
  readonly #onEnd: (call: Call, ending: Ending) => void;
  readonly #deadline: Timer;
  /** The stream identifier; 0 until the call has a stream. */
  id = 0;
  /** The message with gRPC's framing. */
  readonly body: Buffer;
  /** Bytes of the body that are sent. */
  sentBytes = 0;
  /** Bytes that may be sent on its stream. */
  sendWindowBytes = 0;
  /** Bytes that the server may still send on its stream. */
  receiveWindowBytes = 0;
  /** The connection that carries the call. It is notified of the end, to remove the stream. */
  host: CallHost | undefined;
  hasEnded = false;
  #httpStatus = 0;
  #grpcStatus: string | undefined;
  #grpcMessage: string | undefined;
  /** The first chunk, which is nearly always the whole response. */
  #response: Buffer = emptyBuffer;
  /** All chunks if there are several. They are joined once, since joining at each chunk is quadratic. */
  #pieces: ChunkBuffer | undefined;

  /** @param onEnd Called at the end, before the callbacks of `pending`. */
  constructor(pending: PendingCall, clock: Clock, onEnd: (call: Call, ending: Ending) => void) {
    this.pending = pending;
    this.body = frameMessage(pending.message);
    this.#onEnd = onEnd;
    this.#deadline = clock.setTimer(Math.max(0, pending.deadlineMs - clock.monotonicMs()), () => {
      this.#end(callFailure("timeout", "the service did not respond in time"), "timedOut");
    });
  }

  /** The head of the response has been received. */
  get hasHead(): boolean {
    return this.#httpStatus !== 0;
  }

  /** Reads the fields of the response's head or trailers. */
  readFields({ httpStatus, grpcStatus, grpcMessage }: ResponseFields): void {
    if (httpStatus !== 0) this.#httpStatus = httpStatus;
    this.#grpcStatus = grpcStatus ?? this.#grpcStatus;
    this.#grpcMessage = grpcMessage ?? this.#grpcMessage;
  }

  /** Some of the response's body has been received. */
  get hasData(): boolean {
    return this.#response.length > 0;
  }

  /**
   * Reads a chunk of the response, which is valid only during this call. Returns false if the response exceeds the
   * maximum, or will by the length in its prefix.
   */
  readData(buffer: Buffer, start: number, end: number): boolean {
    if (start === end) return true;
    const piece = Buffer.from(buffer.subarray(start, end));
    if (this.#response.length === 0) {
      this.#response = piece;
      return framedLength(piece) <= maxResponseBytes && piece.length <= maxResponseBytes;
    }
    if (this.#pieces === undefined) {
      this.#pieces = new ChunkBuffer();
      this.#pieces.push(this.#response);
    }
    this.#pieces.push(piece);
    return this.#pieces.length <= maxResponseBytes;
  }

  /** Ends the call: the response is complete. */
  complete(): void {
    const response = this.#pieces?.join() ?? this.#response;
    this.#end(outcomeOf(this.#httpStatus, this.#grpcStatus, this.#grpcMessage, response), "responded");
  }

  /** Ends the call: the response is malformed. */
  failMalformed(reason: string): void {
    this.#end(callFailure("garbage", reason), "responded");
  }

  /** Ends the call: the connection is closed. The service may have counted the call. */
  connectionLost(reason: string): void {
    this.#end(callFailure("unavailable", reason), "noResponse");
  }

  /** Ends the call: the server ended it without a response. It may have counted the call. */
  fail(reason: string): void {
    this.#end(callFailure("failed", reason), "noResponse");
  }

  /** Ends the call: the server has not processed it. */
  returnUnprocessed(reason: string): void {
    if (this.#finish("noResponse")) this.pending.onUnprocessed(callFailure("unavailable", reason));
  }

  #end(outcome: CallOutcome, ending: Ending): void {
    if (this.#finish(ending)) this.pending.onDone(outcome);
  }

  /** @returns false if the call had ended before. */
  #finish(ending: Ending): boolean {
    if (this.hasEnded) return false;
    this.hasEnded = true;
    this.#deadline.cancel();
    this.host?.ended(this, ending);
    this.#onEnd(this, ending);
    return true;
  }
}

/** The methods of a connection that a call uses. */
export interface CallHost {
  ended(call: Call, ending: Ending): void;
}
