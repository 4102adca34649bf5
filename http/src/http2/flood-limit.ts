/**
 * Bounds frames that cost work and make no progress, by a token bucket that refills with time and with useful frames of
 * the peer. Ordinary peers never empty it. The known floods (SETTINGS, PING, RST_STREAM, empty DATA, PRIORITY,
 * WINDOW_UPDATE) empty it at once.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { ConnectionError, ErrorCode } from "./frame.ts";

/** A token bucket for one kind of frames of one connection. */
export class FloodLimit {
  readonly #subject: string;
  readonly #clock: Clock;
  readonly #capacity: number;
  readonly #perSecond: number;
  #tokens: number;
  #filledAtMs: number;

  /**
   * Allows bursts of `capacity`, and `perSecond` in the long run.
   *
   * @param subject the counted frames, for the message: "frames that do not advance a request".
   */
  constructor(subject: string, clock: Clock, capacity: number, perSecond: number) {
    this.#subject = subject;
    this.#clock = clock;
    this.#capacity = capacity;
    this.#perSecond = perSecond;
    this.#tokens = capacity;
    this.#filledAtMs = clock.monotonicMs();
  }

  /** Takes a token. Throws `ConnectionError` if the bucket is empty. */
  count(): void {
    if (!this.tryCount()) throw new ConnectionError(ErrorCode.EnhanceYourCalm, `too many ${this.#subject}`);
  }

  /** Takes a token. Returns false if the bucket is empty. */
  tryCount(): boolean {
    if (this.isEmpty) return false;
    this.#tokens--;
    return true;
  }

  get isEmpty(): boolean {
    if (this.#tokens < 1) this.#refill();
    return this.#tokens < 1;
  }

  /** Adds tokens for a useful frame: a busy client sends PING and WINDOW_UPDATE as often as requests. */
  replenish(tokens: number): void {
    this.#tokens = Math.min(this.#capacity, this.#tokens + tokens);
  }

  /** Called only when the bucket is empty, so the clock is read once in `capacity` calls. */
  #refill(): void {
    const nowMs = this.#clock.monotonicMs();
    this.#tokens = Math.min(this.#capacity, this.#tokens + ((nowMs - this.#filledAtMs) / 1_000) * this.#perSecond);
    this.#filledAtMs = nowMs;
  }
}
