/**
 * The resets of one connection, as its budget permits them. Further ones wait until the other requests of the
 * connection have ended, with which it is closed, or until the budget permits them. After half a minute they are sent
 * nevertheless, a few in each second, so that a server does not work for long on what its client has cancelled.
 */
import type { ErrorCode } from "../frame.ts";
import type { FrameWriter } from "../frame-writer.ts";
import type { ResetBudget } from "./reset-budget.ts";

const longestSweeps = 30;
const overduePerSweep = 2;

interface DelayedReset {
  readonly code: ErrorCode;
  /** The sweep at which it is overdue. */
  readonly untilSweep: number;
}

/** The resets that wait, by stream. */
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
