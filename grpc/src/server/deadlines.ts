/**
 * Ends calls whose deadline has passed. The client keeps its own exact deadline; this one only prevents abandoned work
 * from accumulating. So one coarse timer serves all calls.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

/** A call with a deadline. */
export interface Expirable {
  /** Whether the call has ended, so that its deadline does not matter. */
  readonly isDone: boolean;
  /** Called when the deadline has passed. */
  expire(): void;
}

const tickMs = 25;

interface PendingDeadline {
  readonly call: Expirable;
  readonly deadlineTick: number;
}

/** The deadlines of one server, in ticks of 25 ms. */
export class Deadlines {
  readonly #clock: Clock;
  #watched: PendingDeadline[] = [];
  #tick = 0;
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `expire` after `timeoutMs`, up to two ticks late, unless the call is done by then. */
  watch(call: Expirable, timeoutMs: number): void {
    this.#watched.push({ call, deadlineTick: this.#tick + Math.ceil(timeoutMs / tickMs) + 1 });
    this.#timer ??= this.#clock.setTimer(tickMs, this.#expireDue);
  }

  /** Drops all deadlines. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#watched = [];
  }

  readonly #expireDue = (): void => {
    this.#tick++;
    const open: PendingDeadline[] = [];
    for (const watched of this.#watched) {
      if (watched.call.isDone) {
        continue;
      }
      if (watched.deadlineTick <= this.#tick) {
        watched.call.expire();
      } else {
        open.push(watched);
      }
    }
    this.#watched = open;
    this.#timer = open.length === 0 ? undefined : this.#clock.setTimer(tickMs, this.#expireDue);
  };
}
