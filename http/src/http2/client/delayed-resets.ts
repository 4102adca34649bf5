/**
 * Sends the resets of one connection within its budget. Further ones wait for the budget, or until all other requests
 * have ended and the connection is closed. One that has waited for half a minute is sent beyond the budget, a few in
 * each second, so that a server does not work for long on requests that were cancelled.
 */
import type { ErrorCode } from "../frame.ts";
import type { FrameWriter } from "../frame-writer.ts";
import type { ResetBudget } from "./reset-budget.ts";

const longestSweeps = 30;
const overduePerSweep = 2;

interface DelayedReset {
  readonly code: ErrorCode;
  /** The sweep at which it is sent beyond the budget. */
  readonly untilSweep: number;
}

/** Delays resets beyond the budget. */
export class DelayedResets {
  readonly #writer: Pick<FrameWriter, "rstStream">;
  readonly #budget: ResetBudget | undefined;
  /** By stream, in order. */
  readonly #delayed = new Map<number, DelayedReset>();
  #sweeps = 0;

  /** @param budget undefined: no reset waits. */
  constructor(writer: Pick<FrameWriter, "rstStream">, budget: ResetBudget | undefined) {
    this.#writer = writer;
    this.#budget = budget;
  }

  /** Resets a stream, now or later. Returns false if no more may be reset, so that the connection must end. */
  add(id: number, code: ErrorCode): boolean {
    if (this.#budget?.tryTake() === false) this.#delayed.set(id, { code, untilSweep: this.#sweeps + longestSweeps });
    else this.#writer.rstStream(id, code);
    return this.#budget?.isUsedUp !== true;
  }

  /** The peer has reset a stream, which servers count, too. Returns as `add`. */
  countOfPeer(): boolean {
    this.#budget?.tryTake();
    return this.#budget?.isUsedUp !== true;
  }

  /** The peer has ended a stream. */
  ended(id: number): void {
    this.#delayed.delete(id);
  }

  /** Called every `sweepMs`. */
  sweep(): void {
    this.#sweeps++;
    let overdue = 0;
    for (const [id, { code, untilSweep }] of this.#delayed) {
      if (this.#budget?.tryTake() !== true && (untilSweep > this.#sweeps || ++overdue > overduePerSweep)) return;
      this.#delayed.delete(id);
      this.#writer.rstStream(id, code);
    }
  }
}
