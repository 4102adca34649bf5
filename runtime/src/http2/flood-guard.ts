/**
 * Bounds what a peer may do that costs us work and gets it nothing: a bucket of tokens that refills with time, and with
 * what the peer does besides. Honest peers never come near its end; the known floods (SETTINGS, PING, RST_STREAM, empty
 * DATA, PRIORITY, WINDOW_UPDATE) reach it at once.
 */
import type { Clock } from "../clock.ts";

export class FloodGuard {
  readonly #clock: Clock;
  readonly #capacity: number;
  readonly #perSecond: number;
  #tokens: number;
  #filledAtMs: number;

  /** Allows bursts of `capacity` and `perSecond` in the long run. */
  constructor(clock: Clock, capacity: number, perSecond: number) {
    this.#clock = clock;
    this.#capacity = capacity;
    this.#perSecond = perSecond;
    this.#tokens = capacity;
    this.#filledAtMs = clock.monotonicMs();
  }

  /** Whether one more is allowed. */
  allows(): boolean {
    if (this.#tokens < 1) {
      this.#refill();
    }
    if (this.#tokens < 1) {
      return false;
    }
    this.#tokens--;
    return true;
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
