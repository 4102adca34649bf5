/** State that the calls of one server share. */
import type { Deadlines } from "./deadlines.ts";
import type { MessageBounds } from "../message-framing.ts";
import { TurnQueue } from "./turn-queue.ts";
import { GrpcError, StatusCode } from "../status.ts";

/** The bounds of all calls together. */
export interface CallContextOptions {
  /** Ends calls at their deadline. */
  readonly deadlines: Deadlines;
  /** The memory of incomplete messages. */
  readonly bounds: MessageBounds;
  /** Maximum number of unary calls in progress, over all connections. */
  readonly maxCalls: number;
  /** Called for an unexpected error of a method. */
  readonly onError: (error: unknown) => void;
}

/** Bounds the number of calls in progress, and turns errors of calls into a status. */
export class CallContext {
  readonly deadlines: Deadlines;
  readonly bounds: MessageBounds;
  readonly turns = new TurnQueue();
  readonly #maxCalls: number;
  readonly #onError: (error: unknown) => void;
  #calls = 0;

  constructor(options: CallContextOptions) {
    this.deadlines = options.deadlines;
    this.bounds = options.bounds;
    this.#maxCalls = options.maxCalls;
    this.#onError = options.onError;
  }

  /** Counts a call as in progress until `endCall`. Returns false, and counts nothing, beyond the maximum. */
  beginCall(): boolean {
    if (this.#calls >= this.#maxCalls) {
      return false;
    }
    this.#calls++;
    return true;
  }

  /** Ends the count of a call. */
  endCall(): void {
    this.#calls--;
  }

  /** Returns the status for an error. An error that is not a `GrpcError` is reported, and becomes INTERNAL. */
  statusOf(error: unknown): GrpcError {
    if (error instanceof GrpcError) {
      return error;
    }
    this.#onError(error);
    return new GrpcError(StatusCode.Internal, "internal error");
  }
}
