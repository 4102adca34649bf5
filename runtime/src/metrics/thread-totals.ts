/**
 * Keeps the last counts of threads that have ended, so that sums over all threads never fall. Prometheus takes a counter
 * that falls for a restarted one, and its whole value for an increase.
 */

/** The counts of all threads, running and ended. */
export class ThreadTotals<Counts> {
  readonly #addUp: (counts: readonly Counts[]) => Counts;
  readonly #lastOf = new Map<number, Counts>();
  #ofEnded: Counts | undefined;

  /** @param addUp adds up at least one set of counts, without values that mean nothing once a thread has ended. */
  constructor(addUp: (counts: readonly Counts[]) => Counts) {
    this.#addUp = addUp;
  }

  /** Records what a thread has counted since its start. */
  record(thread: number, counts: Counts): void {
    this.#lastOf.set(thread, counts);
  }

  /** Records that a thread has ended. Another may get its number. */
  retire(thread: number): void {
    const last = this.#lastOf.get(thread);
    if (last === undefined) return;
    this.#lastOf.delete(thread);
    this.#ofEnded = this.#addUp([...this.retired, last]);
  }

  /** The sum of all threads that have ended; empty if none has. */
  get retired(): readonly Counts[] {
    return this.#ofEnded === undefined ? [] : [this.#ofEnded];
  }
}
