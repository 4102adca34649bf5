/** One unary call: what is asked, how far it has got on its stream, and how it ends, which it does exactly once. */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { KeptBytes } from "@gatewayproxy/runtime/kept-bytes";
import { announcedBytes, concludeCall, frameMessage } from "./grpc-message.ts";
import type { AnswerFields } from "./response-block.ts";
import { type CallFailure, type CallOutcome, callFailure } from "./unary-client.ts";

/** One call, from whoever sends it. */
export interface PendingCall {
  readonly path: string;
  readonly message: Buffer;
  /** Of `Clock.monotonicMs`. */
  readonly deadlineMs: number;
  readonly done: (outcome: CallOutcome) => void;
  /** The server has not begun the call: it may be sent again. */
  readonly returned: (failure: CallFailure) => void;
}

/** Whether the server had said anything of a call; `lost` came with the connection, or never left. */
export type Ending = "heard" | "timedOut" | "lost";

/** More than any answer; whatever goes on beyond is cut off. */
export const maxAnswerBytes = 1024 * 1024;

const nothing = Buffer.alloc(0);

export class Call {
  readonly pending: PendingCall;
  readonly #onEnd: (call: Call, ending: Ending) => void;
  readonly #deadline: Timer;
  /** Of its stream; 0 until it has one. */
  id = 0;
  /** With gRPC's framing. */
  readonly body: Buffer;
  /** How much of the body has been sent. */
  sentBytes = 0;
  /** What may be sent on its stream. */
  sendWindowBytes = 0;
  /** What the server may still send on its stream. */
  receiveWindowBytes = 0;
  /** The connection that carries it learns of its end here, to forget its stream. */
  host: CallHost | undefined;
  isOver = false;
  #httpStatus = 0;
  #grpcStatus: string | undefined;
  #grpcMessage: string | undefined;
  /** The first piece, which is nearly always the whole answer. */
  #answer: Buffer = nothing;
  /** All pieces, once there are several: they are joined once, since a join for each costs the square of their number. */
  #pieces: KeptBytes | undefined;

  /** @param onEnd hears of the end before the sender of the call does. */
  constructor(pending: PendingCall, clock: Clock, onEnd: (call: Call, ending: Ending) => void) {
    this.pending = pending;
    this.body = frameMessage(pending.message);
    this.#onEnd = onEnd;
    this.#deadline = clock.setTimer(Math.max(0, pending.deadlineMs - clock.monotonicMs()), () => {
      this.#end(callFailure("timeout", "the service did not answer in time"), "timedOut");
    });
  }

  /** The head of the answer has come. */
  get hasHead(): boolean {
    return this.#httpStatus !== 0;
  }

  /** Takes the fields of the answer's head or trailers. */
  readFields({ httpStatus, grpcStatus, grpcMessage }: AnswerFields): void {
    if (httpStatus !== 0) this.#httpStatus = httpStatus;
    this.#grpcStatus = grpcStatus ?? this.#grpcStatus;
    this.#grpcMessage = grpcMessage ?? this.#grpcMessage;
  }

  /** Some of the answer has come. */
  get hasData(): boolean {
    return this.#answer.length > 0;
  }

  /**
   * Takes a piece of the answer, valid during this call only; false when there is more of it than any answer has, or is
   * about to be by the length in front of it.
   */
  readData(buffer: Buffer, start: number, end: number): boolean {
    if (start === end) return true;
    const piece = Buffer.from(buffer.subarray(start, end));
    if (this.#answer.length === 0) {
      this.#answer = piece;
      return announcedBytes(piece) <= maxAnswerBytes && piece.length <= maxAnswerBytes;
    }
    if (this.#pieces === undefined) {
      this.#pieces = new KeptBytes();
      this.#pieces.push(this.#answer);
    }
    this.#pieces.push(piece);
    return this.#pieces.length <= maxAnswerBytes;
  }

  /** The answer has come to its end. */
  conclude(): void {
    const answer = this.#pieces?.join() ?? this.#answer;
    this.#end(concludeCall(this.#httpStatus, this.#grpcStatus, this.#grpcMessage, answer), "heard");
  }

  /** What came is no answer. */
  spoil(reason: string): void {
    this.#end(callFailure("garbage", reason), "heard");
  }

  /** The connection has gone; the call may have been counted. */
  breakOff(reason: string): void {
    this.#end(callFailure("unavailable", reason), "lost");
  }

  /** The server has ended the call without an answer; it may have been counted. */
  fail(reason: string): void {
    this.#end(callFailure("failed", reason), "lost");
  }

  /** The server has not begun the call. */
  giveBack(reason: string): void {
    if (this.#over("lost")) this.pending.returned(callFailure("unavailable", reason));
  }

  #end(outcome: CallOutcome, ending: Ending): void {
    if (this.#over(ending)) this.pending.done(outcome);
  }

  /** @returns false when it was over before. */
  #over(ending: Ending): boolean {
    if (this.isOver) return false;
    this.isOver = true;
    this.#deadline.cancel();
    this.host?.ended(this, ending);
    this.#onEnd(this, ending);
    return true;
  }
}

/** What a call needs of the connection that carries it. */
export interface CallHost {
  ended(call: Call, ending: Ending): void;
}
