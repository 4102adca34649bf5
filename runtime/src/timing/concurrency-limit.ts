/** Bounds the work that runs at the same time. */

/** Runs work in the order of the calls, up to a number at the same time. */
export class ConcurrencyLimit {
  readonly #max: number;
  #running = 0;
  /** In the order of their calls. */
  readonly #waiting = new Set<() => void>();

  /** @param max the number of works that run at the same time, at least 1. */
  constructor(max: number) {
    this.#max = max;
  }

  /** The number of works that have not started yet. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Whether no work runs or waits. */
  get isIdle(): boolean {
    return this.#running === 0;
  }

  /** Runs `work` as soon as fewer than the maximum run. Resolves or rejects as it does. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#running < this.#max) this.#running++;
    else await new Promise<void>((start) => this.#waiting.add(start));
    try {
      return await work();
    } finally {
      const [next] = this.#waiting;
      if (next === undefined) {
        this.#running--;
      } else {
        // It takes the place of this one.
        this.#waiting.delete(next);
        next();
      }
    }
  }
}
