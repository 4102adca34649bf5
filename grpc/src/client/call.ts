/** One unary call: its message, its progress on its stream, and its end. */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";
import { type ClientHost, ClientStream } from "@gatewayproxy/http/http2/client/client-stream";
import { ErrorCode } from "@gatewayproxy/http/http2/frame";
import type { CallHeads } from "./call-heads.ts";
import { framedLength, outcomeOf } from "./call-outcome.ts";
import { frameMessage } from "../message-framing.ts";
import type { ResponseFields } from "./response-fields.ts";
import { type CallFailure, type CallOutcome, callFailure } from "./unary-client.ts";

/** A call to send. */
export interface PendingCall {
  readonly path: string;
  readonly message: Buffer;
  /** Metadata of this call: names in lower case and values, in turn. */
  readonly fields?: readonly string[];
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
 * A unary call, from the queue to its end. Exactly one of `pending.onDone` and `pending.onUnprocessed` is called, once,
 * at the latest at the deadline.
 */
export class Call extends ClientStream<ResponseFields> {
  readonly #pending: PendingCall;
  readonly #heads: CallHeads;
  readonly #clock: Clock;
  readonly #onEnd: (ending: Ending) => void;
  readonly #deadline: Timer;
  #hasEnded = false;
  #httpStatus = 0;
  #grpcStatus: string | undefined;
  #grpcMessage: string | undefined;
  /** The first chunk, which is nearly always the whole response. */
  #response: Buffer = emptyBuffer;
  /** All chunks if there are several. They are joined once, since joining at each chunk is quadratic. */
  #pieces: ChunkBuffer | undefined;

  /** @param onEnd Called at the end, before the callbacks of `pending`. */
  constructor(pending: PendingCall, heads: CallHeads, clock: Clock, onEnd: (ending: Ending) => void) {
    super();
    this.#pending = pending;
    this.#heads = heads;
    this.#clock = clock;
    this.#onEnd = onEnd;
    this.#deadline = clock.setTimer(Math.max(0, pending.deadlineMs - clock.monotonicMs()), () => {
      this.#end(callFailure("timeout", "the service did not respond in time"), "timedOut");
    });
  }

  opened(host: ClientHost): void {
    const { path, message, fields, deadlineMs } = this.#pending;
    const remainingMs = Math.ceil(deadlineMs - this.#clock.monotonicMs());
    host.writer.headers(this.id, this.#heads.blockOf(path, remainingMs, fields), false);
    this.writeData(host, frameMessage(message), true);
  }

  receivedInterimHead(): void {
    // A call needs the final head only.
  }

  receivedHead(fields: ResponseFields, httpStatus: number): void {
    this.#httpStatus = httpStatus;
    this.receivedTrailers(fields);
  }

  /** Reads the status. A response without messages has it in its head. */
  receivedTrailers({ grpcStatus, grpcMessage }: ResponseFields): void {
    this.#grpcStatus = grpcStatus ?? this.#grpcStatus;
    this.#grpcMessage = grpcMessage ?? this.#grpcMessage;
  }

  data(buffer: Buffer, start: number, end: number): void {
    if (this.#readData(buffer, start, end)) return;
    this.reset(ErrorCode.Cancel);
    this.malformed(`a response of more than ${maxResponseBytes} bytes`);
  }

  /**
   * Reads a chunk of the response, which is valid only during this call. Returns false if the response exceeds the
   * maximum, or will by the length in its prefix.
   */
  #readData(buffer: Buffer, start: number, end: number): boolean {
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

  completed(): void {
    const response = this.#pieces?.join() ?? this.#response;
    this.#end(outcomeOf(this.#httpStatus, this.#grpcStatus, this.#grpcMessage, response), "responded");
  }

  malformed(reason: string): void {
    this.#end(callFailure("garbage", reason), "responded");
  }

  /** Ends the call as failed, not as unprocessed: the service may have counted it. */
  connectionLost(reason: string): void {
    this.#end(callFailure("unavailable", reason), "noResponse");
  }

  wasReset(code: number): void {
    // The response is complete, and the service does not need the rest of the call (RFC 9113 §8.1).
    if (code === ErrorCode.NoError && this.hasHead) this.completed();
    else this.#end(callFailure("failed", `the service reset the call with error code ${code}`), "noResponse");
  }

  unprocessed(reason: string): void {
    if (this.#finish("noResponse")) this.#pending.onUnprocessed(callFailure("unavailable", reason));
  }

  #end(outcome: CallOutcome, ending: Ending): void {
    if (this.#finish(ending)) this.#pending.onDone(outcome);
  }

  /** @returns false if the call had ended before. */
  #finish(ending: Ending): boolean {
    if (this.#hasEnded) return false;
    this.#hasEnded = true;
    this.#deadline.cancel();
    this.host?.ended(this, ending === "timedOut");
    this.#onEnd(ending);
    return true;
  }
}
