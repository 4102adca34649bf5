/**
 * Locks in shared memory, one 32-bit word each, for critical sections of a few hundred nanoseconds. A word names the
 * thread that holds it, so that the locks of a thread that died can be freed by the one that outlives it.
 *
 *     0   free
 *     n   held by owner n
 *    -n   held by owner n, and some thread sleeps on it
 */

/** Tries before a thread sleeps: longer than a section takes, shorter than a time slice of a holder that lost its CPU. */
const spins = 100;

/** A sleeper looks again by itself: the one wake-up of an unlock may have gone to a thread that died of it. */
const sleepMs = 50;

export class BucketLocks {
  readonly #words: Int32Array;
  readonly #owner: number;

  /** `words` starts zeroed and is shared; `owner` is 1..2^31-1 and names one living thread. */
  constructor(words: Int32Array, owner: number) {
    if (!Number.isInteger(owner) || owner < 1 || owner > 0x7fff_ffff) {
      throw new RangeError(`lock owner ${owner} must be 1..2147483647`);
    }
    this.#words = words;
    this.#owner = owner;
  }

  /** Blocks until the lock is held. A thread that takes several takes them in ascending order, each once. */
  lock(index: number): void {
    if (Atomics.compareExchange(this.#words, index, 0, this.#owner) !== 0) this.#wait(index);
  }

  /** The caller holds the lock. */
  unlock(index: number): void {
    if (Atomics.exchange(this.#words, index, 0) < 0) Atomics.notify(this.#words, index, 1);
  }

  /** Frees every lock that `owner` holds and returns how many. Only for an owner that runs no more. */
  releaseAll(owner: number): number {
    let released = 0;
    for (let index = 0; index < this.#words.length; index++) {
      let held = Atomics.load(this.#words, index);
      while (Math.abs(held) === owner) {
        // A thread that begins to wait may change the sign between the two lines.
        if (Atomics.compareExchange(this.#words, index, held, 0) === held) {
          Atomics.notify(this.#words, index);
          released++;
        }
        held = Atomics.load(this.#words, index);
      }
    }
    return released;
  }

  #wait(index: number): void {
    for (let spin = 0; spin < spins; spin++) {
      Atomics.pause();
      if (Atomics.load(this.#words, index) === 0 && Atomics.compareExchange(this.#words, index, 0, this.#owner) === 0) {
        return;
      }
    }
    this.#sleep(index);
  }

  /** From here on the word is taken as "somebody sleeps": this thread cannot know that it was the only one. */
  #sleep(index: number): void {
    for (;;) {
      const held = Atomics.compareExchange(this.#words, index, 0, -this.#owner);
      if (held === 0) return;
      const awaited = -Math.abs(held);
      if (held < 0 || Atomics.compareExchange(this.#words, index, held, awaited) === held) {
        Atomics.wait(this.#words, index, awaited, sleepMs);
      }
    }
  }
}
