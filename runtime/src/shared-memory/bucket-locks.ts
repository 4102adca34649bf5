/**
 * Locks in shared memory, one 32-bit word each, for critical sections without waits. A word names the thread that
 * holds the lock, so that another thread can release the locks of a thread that died.
 *
 *     0   free
 *     n   held by owner n
 *    -n   held by owner n, and at least one thread sleeps on it
 */

/** Tries before a thread sleeps: more than a section takes, less than the time slice of a holder that lost its CPU. */
const spins = 100;

/** The longest sleep before the next try: an unlock wakes one thread, and that thread may have died since. */
const sleepMs = 50;

/** One thread's view of an array of locks. */
export class BucketLocks {
  readonly #words: Int32Array;
  readonly #owner: number;

  /**
   * @param words shared memory that starts zeroed.
   * @param owner the number of this living thread, 1 to 2^31-1. @throws `RangeError` for any other.
   */
  constructor(words: Int32Array, owner: number) {
    if (!Number.isInteger(owner) || owner < 1 || owner > 0x7fff_ffff) {
      throw new RangeError(`lock owner ${owner} must be 1..2147483647`);
    }
    this.#words = words;
    this.#owner = owner;
  }

  /** Blocks until the lock is held. A thread that takes several locks takes them in ascending order, each once. */
  lock(index: number): void {
    if (Atomics.compareExchange(this.#words, index, 0, this.#owner) !== 0) this.#wait(index);
  }

  /**
   * Takes the lock unless another thread holds it for longer than a section takes. Returns whether it is held. For a
   * thread that must not block: one that releases the locks of dead threads would wait for itself.
   */
  tryLock(index: number): boolean {
    return Atomics.compareExchange(this.#words, index, 0, this.#owner) === 0 || this.#spin(index);
  }

  /** Releases the lock, which the caller holds. */
  unlock(index: number): void {
    if (Atomics.exchange(this.#words, index, 0) < 0) Atomics.notify(this.#words, index, 1);
  }

  /** Releases every lock that `owner` holds and returns their number. Only for an owner whose thread has ended. */
  releaseAll(owner: number): number {
    let released = 0;
    for (let index = 0; index < this.#words.length; index++) {
      let word = Atomics.load(this.#words, index);
      while (Math.abs(word) === owner) {
        // A thread that starts to wait may change the sign between these two lines.
        if (Atomics.compareExchange(this.#words, index, word, 0) === word) {
          Atomics.notify(this.#words, index);
          released++;
        }
        word = Atomics.load(this.#words, index);
      }
    }
    return released;
  }

  #wait(index: number): void {
    if (!this.#spin(index)) this.#sleep(index);
  }

  /** Tries a few times. Returns whether the lock is held. */
  #spin(index: number): boolean {
    for (let spin = 0; spin < spins; spin++) {
      Atomics.pause();
      if (Atomics.load(this.#words, index) === 0 && Atomics.compareExchange(this.#words, index, 0, this.#owner) === 0) {
        return true;
      }
    }
    return false;
  }

  /** Marks the word as "a thread sleeps" from here on, since this thread cannot know whether others sleep too. */
  #sleep(index: number): void {
    for (;;) {
      const word = Atomics.compareExchange(this.#words, index, 0, -this.#owner);
      if (word === 0) return;
      const sleepingWord = -Math.abs(word);
      if (word < 0 || Atomics.compareExchange(this.#words, index, word, sleepingWord) === word) {
        Atomics.wait(this.#words, index, sleepingWord, sleepMs);
      }
    }
  }
}
