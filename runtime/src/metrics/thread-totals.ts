/**
 * Keeps the last counts of threads that have ended, so that sums over all threads never fall. Prometheus interprets a
 * counter that falls as restarted, and its whole value as an increase.
 */

/** The counts of all threads, running and ended. */
export class ThreadTotals<Counts> {
  readonly #addUp: (counts: readonly Counts[]) => Counts;
  readonly #lastCounts = new Map<number, Counts>();
  #endedTotal: Counts | undefined;

  /** @param addUp adds up at least one set of counts, without values that mean nothing once a thread has ended. */
  constructor(addUp: (counts: readonly Counts[]) => Counts) {
    this.#addUp = addUp;
  }

  /** Records what a thread has counted since its start. */
  record(thread: number, counts: Counts): void {
    this.#lastCounts.set(thread, counts);
  }

  /** Records that a thread has ended. Another may get its number. */
  retire(thread: number): void {
    const last = this.#lastCounts.get(thread);
    if (last === undefined) return;
    this.#lastCounts.delete(thread);
    this.#endedTotal = this.#addUp([...this.retired, last]);
  }

  /** The sum of all threads that have ended; empty if none has. */
  get retired(): readonly Counts[] {
    return this.#endedTotal === undefined ? [] : [this.#endedTotal];
  }
}
