/**
 * Keeps what threads had counted when they were last asked after they have ended, so that sums over all threads never
 * fall. Prometheus takes a counter that falls for one that began anew, and all that is left of it for new.
 */

export class ThreadTotals<Counts> {
  readonly #addUp: (counts: readonly Counts[]) => Counts;
  readonly #lastOf = new Map<number, Counts>();
  #ofEnded: Counts | undefined;

  /** @param addUp of at least one, without what means nothing once a thread has ended. */
  constructor(addUp: (counts: readonly Counts[]) => Counts) {
    this.#addUp = addUp;
  }

  /** What a thread says that it has counted since its start. */
  heard(thread: number, counts: Counts): void {
    this.#lastOf.set(thread, counts);
  }

  /** The thread is no more; another may get its number. */
  ended(thread: number): void {
    const last = this.#lastOf.get(thread);
    if (last === undefined) return;
    this.#lastOf.delete(thread);
    this.#ofEnded = this.#addUp([...this.ofEnded, last]);
  }

  /** Of all threads that have ended, in one; empty where none has. */
  get ofEnded(): readonly Counts[] {
    return this.#ofEnded === undefined ? [] : [this.#ofEnded];
  }
}
