/**
 * Ends calls whose time is up. The client keeps its own deadline to the millisecond; ours only keeps abandoned work from
 * piling up, so one coarse tick looks after all calls and a call costs no timer of its own.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

export interface Expirable {
  /** Over, one way or the other; it need not be watched any more. */
  readonly isDone: boolean;
  /** Its time is up. */
  expire(): void;
}

const tickMs = 25;

interface Watched {
  readonly call: Expirable;
  readonly deadlineTick: number;
}

export class Deadlines {
  readonly #clock: Clock;
  #watched: Watched[] = [];
  #tick = 0;
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `expire` after `timeoutMs`, up to two ticks late, unless the call is done by then. */
  watch(call: Expirable, timeoutMs: number): void {
    this.#watched.push({ call, deadlineTick: this.#tick + Math.ceil(timeoutMs / tickMs) + 1 });
    this.#timer ??= this.#clock.setTimer(tickMs, this.#look);
  }

  /** Watches nothing any more. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#watched = [];
  }

  readonly #look = (): void => {
    this.#tick++;
    const open: Watched[] = [];
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
    this.#timer = open.length === 0 ? undefined : this.#clock.setTimer(tickMs, this.#look);
  };
}
