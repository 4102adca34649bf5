/** Bounds the log lines that a flood of the same event writes. */
import type { Clock } from "../timing/clock.ts";

/** A limit of log lines per second that counts the omitted ones. */
export class LineLimit {
  readonly #clock: Clock;
  readonly #perSecond: number;
  /** Start of the second that is counted; monotonic. */
  #secondStartMs = Number.NEGATIVE_INFINITY;
  #written = 0;
  #omitted = 0;

  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
  }

  /** Calls `write` unless the limit of this second is reached. `write` gets the number of lines omitted before. */
  log(write: (omitted: number) => void): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#secondStartMs >= 1_000) {
      this.#secondStartMs = nowMs;
      this.#written = 0;
    }
    if (this.#written >= this.#perSecond) {
      this.#omitted++;
      return;
    }
    this.#written++;
    const omitted = this.#omitted;
    this.#omitted = 0;
    write(omitted);
  }
}
