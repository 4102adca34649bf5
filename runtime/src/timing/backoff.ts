/** Exponential backoff: the waits between attempts grow, and differ between clients that failed at the same time. */

/** Options of a `Backoff`. */
export interface BackoffOptions {
  /** The upper bound of the first wait, in milliseconds. Default: 200. */
  readonly firstMs?: number;
  /** The upper bound of all waits, in milliseconds. Default: 10,000. */
  readonly maxMs?: number;
  /** The random share of a wait, from 0 (none) to 1 (a wait may be 0). Default: 0.5. */
  readonly jitter?: number;
  /** Returns random numbers from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
}

/** The waits of one sequence of attempts. The upper bound doubles with each failure in a row. */
export class Backoff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  readonly #jitter: number;
  readonly #random: () => number;
  #failures = 0;

  constructor({ firstMs = 200, maxMs = 10_000, jitter = 0.5, random }: BackoffOptions) {
    this.#firstMs = firstMs;
    this.#maxMs = maxMs;
    this.#jitter = jitter;
    this.#random = random;
  }

  /** Failures since the start or the last `reset`. */
  get failures(): number {
    return this.#failures;
  }

  /** Counts one more failure and returns the wait before the next attempt, in milliseconds. */
  next(): number {
    // The exponent is bounded: 0 * Infinity is not a number.
    const boundMs = Math.min(this.#maxMs, this.#firstMs * 2 ** Math.min(this.#failures, 64));
    this.#failures++;
    return boundMs * (1 - this.#jitter * (1 - this.#random()));
  }

  /** Forgets the failures, after an attempt that succeeded. */
  reset(): void {
    this.#failures = 0;
  }
}
