/**
 * Bounds what a peer may do that costs us work and gets it nothing: a bucket of tokens that refills with time, and with
 * what the peer does besides. Honest peers never come near its end; the known floods (SETTINGS, PING, RST_STREAM, empty
 * DATA, PRIORITY, WINDOW_UPDATE) reach it at once.
 */
import type { Clock } from "../clock.ts";
import { ConnectionError, ErrorCode } from "./frame.ts";

export class FloodGuard {
  readonly #what: string;
  readonly #clock: Clock;
  readonly #capacity: number;
  readonly #perSecond: number;
  #tokens: number;
  #filledAtMs: number;

  /**
   * Allows bursts of `capacity` and `perSecond` in the long run.
   *
   * @param what is bounded, for the message: "frames that move no request".
   */
  constructor(what: string, clock: Clock, capacity: number, perSecond: number) {
    this.#what = what;
    this.#clock = clock;
    this.#capacity = capacity;
    this.#perSecond = perSecond;
    this.#tokens = capacity;
    this.#filledAtMs = clock.monotonicMs();
  }

  /** Counts one more. Throws `ConnectionError` where there have been too many. */
  count(): void {
    if (this.#tokens < 1) {
      this.#refill();
    }
    if (this.#tokens < 1) {
      throw new ConnectionError(ErrorCode.EnhanceYourCalm, `too many ${this.#what}`);
    }
    this.#tokens--;
  }

  /** The peer has done something of use: a busy client pings and opens its windows as often as it calls. */
  earn(tokens: number): void {
    this.#tokens = Math.min(this.#capacity, this.#tokens + tokens);
  }

  /** Only when the bucket is empty, so the clock is read once in `capacity` calls. */
  #refill(): void {
    const nowMs = this.#clock.monotonicMs();
    this.#tokens = Math.min(this.#capacity, this.#tokens + ((nowMs - this.#filledAtMs) / 1_000) * this.#perSecond);
    this.#filledAtMs = nowMs;
  }
}
