/**
 * Answers of LLM backends that are read on for their usage after the client has left. The provider finishes the answer and
 * bills it, so a client that leaves before the last event must not go without a charge.
 *
 * What this holds is bounded, as a client could otherwise take connections to a backend by leaving: the time and the bytes
 * of each answer, and their number. Beyond a bound the usage is estimated.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

export interface AbandonedAnswerSettings {
  /** How long one answer is read on; 0 reads none. */
  readonly timeoutMs: number;
  /** Of the body of one answer, from when its client has left. */
  readonly maxBytes: number;
  /** Of a worker at once; 0 reads none. */
  readonly maxAnswers: number;
}

export const defaultAbandonedAnswers: AbandonedAnswerSettings = {
  timeoutMs: 60_000,
  maxBytes: 8 * 1024 * 1024,
  maxAnswers: 128,
};

/** How long an answer may still take when the proxy shuts down, so that its charge leaves before the process ends. */
const drainMs = 5_000;

/** One answer that is read on. */
export interface AbandonedAnswer {
  /** @returns false when the bound is passed, and the answer has been given up. */
  countBytes(bytes: number): boolean;
  /** The answer has come to its end. Harmless after that. */
  end(): void;
}

export class AbandonedAnswers {
  readonly #clock: Clock;
  readonly #settings: AbandonedAnswerSettings;
  readonly #reads = new Set<Read>();
  #isDraining = false;
  #isClosed = false;
  #onEmpty: (() => void)[] = [];

  constructor(clock: Clock, settings: AbandonedAnswerSettings) {
    this.#clock = clock;
    this.#settings = settings;
  }

  /**
   * Makes room for one more answer.
   *
   * @param remainingMs what the timeouts of the rule leave the answer; one is read on no longer than that.
   * @param giveUp called at most once, when a bound is passed; not after `end`.
   * @returns undefined when there is no room.
   */
  begin(remainingMs: number, giveUp: () => void): AbandonedAnswer | undefined {
    const { timeoutMs, maxAnswers, maxBytes } = this.#settings;
    if (this.#isClosed || timeoutMs === 0 || this.#reads.size >= maxAnswers) return undefined;
    const read = new Read(maxBytes, giveUp, () => this.#delete(read));
    read.endsMs = this.#clock.monotonicMs() + Math.min(timeoutMs, Math.max(0, remainingMs));
    this.#setTimer(read);
    this.#reads.add(read);
    return read;
  }

  /** Resolves when none is left; those that take longer than a few seconds are given up. */
  async drain(): Promise<void> {
    this.#isDraining = true;
    for (const read of this.#reads) {
      read.timer?.cancel();
      this.#setTimer(read);
    }
    if (this.#reads.size > 0) await new Promise<void>((resolve) => this.#onEmpty.push(resolve));
  }

  /** Gives all of them up, and takes no more. */
  close(): void {
    this.#isClosed = true;
    for (const read of [...this.#reads]) read.giveUp();
  }

  #setTimer(read: Read): void {
    const ms = Math.max(0, read.endsMs - this.#clock.monotonicMs());
    read.timer = this.#clock.setTimer(this.#isDraining ? Math.min(ms, drainMs) : ms, () => read.giveUp());
  }

  #delete(read: Read): void {
    this.#reads.delete(read);
    if (this.#reads.size > 0) return;
    for (const resolve of this.#onEmpty.splice(0)) resolve();
  }
}

class Read implements AbandonedAnswer {
  timer: Timer | undefined;
  /** Monotonic. */
  endsMs = 0;
  #remainingBytes: number;
  readonly #onGivenUp: () => void;
  readonly #onEnded: () => void;
  #isOver = false;

  constructor(maxBytes: number, onGivenUp: () => void, onEnded: () => void) {
    this.#remainingBytes = maxBytes;
    this.#onGivenUp = onGivenUp;
    this.#onEnded = onEnded;
  }

  countBytes(bytes: number): boolean {
    this.#remainingBytes -= bytes;
    if (this.#remainingBytes >= 0) return true;
    this.giveUp();
    return false;
  }

  giveUp(): void {
    if (this.#isOver) return;
    this.end();
    this.#onGivenUp();
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.timer?.cancel();
    this.#onEnded();
  }
}
