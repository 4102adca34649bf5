/** The calls of backends, without tunnels, as their pools count them. */

/** The number of calls of all backends of a worker that wait for a connection. */
export interface WaitingCalls {
  waiting: number;
}

/** The number of calls of one backend, over all its pools. */
export class BackendLoad {
  /** On a connection or waiting for one. */
  inFlight = 0;
  readonly #all: WaitingCalls;
  #waiting = 0;

  /** @param all counts the waiting calls of this backend, too. */
  constructor(all: WaitingCalls) {
    this.#all = all;
  }

  /** The number of calls that wait for a connection. */
  get waiting(): number {
    return this.#waiting;
  }

  /** A call starts to wait. */
  startWaiting(): void {
    this.#waiting++;
    this.#all.waiting++;
  }

  /** A call does not wait any more. Must be called once for each call of `startWaiting`. */
  endWaiting(): void {
    this.#waiting--;
    this.#all.waiting--;
  }
}
