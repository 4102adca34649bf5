/** The timeout of a request, over all of its attempts (Gateway API `HTTPRouteTimeouts.request`). */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

export class RequestDeadline {
  readonly #clock: Clock;
  readonly #endsMs: number;
  readonly #timer: Timer;

  /** @param endsMs on the monotonic clock. @param onPassed called once, unless `cancel` is called before. */
  constructor(clock: Clock, endsMs: number, onPassed: () => void) {
    this.#clock = clock;
    this.#endsMs = endsMs;
    this.#timer = clock.setTimer(this.remainingMs, onPassed);
  }

  /** The time that is left, at least 0. */
  get remainingMs(): number {
    return Math.max(0, this.#endsMs - this.#clock.monotonicMs());
  }

  /** The request has ended, or has become a tunnel, which lasts as long as it is used. */
  cancel(): void {
    this.#timer.cancel();
  }
}
