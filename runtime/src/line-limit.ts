/** Lines of a log that a flood of the same event may write. */
import type { Clock } from "./clock.ts";

export class LineLimit {
  readonly #clock: Clock;
  readonly #perSecond: number;
  /** Monotonic; the second that is counted. */
  #sinceMs = Number.NEGATIVE_INFINITY;
  #written = 0;
  #omitted = 0;

  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
  }

  /** Calls `write`, at most so often per second. @param write takes the number of lines that were omitted before. */
  tell(write: (omitted: number) => void): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#sinceMs >= 1_000) {
      this.#sinceMs = nowMs;
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
