/** What the calls of one server share. */
import type { Deadlines } from "./deadlines.ts";
import type { MessageBounds } from "./message-framing.ts";
import { Turns } from "./turns.ts";
import { GrpcError, StatusCode } from "./status.ts";

export interface CallContextOptions {
  readonly deadlines: Deadlines;
  readonly bounds: MessageBounds;
  /** Unary calls whose method is at work, over all connections. */
  readonly maxCalls: number;
  /** An error that a method should not throw. */
  readonly onFault: (error: unknown) => void;
}

export class CallContext {
  readonly deadlines: Deadlines;
  readonly bounds: MessageBounds;
  readonly turns = new Turns();
  readonly #maxCalls: number;
  readonly #onFault: (error: unknown) => void;
  #calls = 0;

  constructor(options: CallContextOptions) {
    this.deadlines = options.deadlines;
    this.bounds = options.bounds;
    this.#maxCalls = options.maxCalls;
    this.#onFault = options.onFault;
  }

  /** Begins a call's work, if there is room for it; `leave` ends it. */
  enter(): boolean {
    if (this.#calls >= this.#maxCalls) {
      return false;
    }
    this.#calls++;
    return true;
  }

  leave(): void {
    this.#calls--;
  }

  /** The status that an error means to the client; one that is no `GrpcError` is reported and told as INTERNAL. */
  statusOf(error: unknown): GrpcError {
    if (error instanceof GrpcError) {
      return error;
    }
    this.#onFault(error);
    return new GrpcError(StatusCode.Internal, "internal error");
  }
}
