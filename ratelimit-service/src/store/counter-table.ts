/**
 * The counters of a process in one SharedArrayBuffer (see runtime's counter-memory.ts for its layout), so that its
 * worker threads share them.
 *
 * slot   0  count             f64     16  fingerprint  4 × i32     36  text of the key, 92 bytes of UTF-8
 * 8  windowEndSeconds  f64     32  length of the text, i32
 *
 * A slot whose window has ended is free; until it is reused, its counter serves calls that arrived in the window and
 * are counted after its end. A slot of zeros is free, so new memory needs no initialization.
 */
import { hash } from "node:crypto";
import {
  bucketOf,
  CounterMemory,
  slotBytes,
  slotNumbers,
  slotWords,
  ways,
  wordOf,
} from "@gatewayproxy/runtime/counter-memory";
import { type LiveCounter, maxCount } from "../model/counter-store.ts";

/** Offsets in a slot, in elements of its array. */
const offsets = {
  number: { count: 0, windowEnd: 1 },
  word: { fingerprint: 4, textLength: 8 },
  byte: { text: 36 },
} as const;

const maxTextBytes = slotBytes - offsets.byte.text;

/**
 * One thread's access to the counters. When a bucket is full, the counter whose window ends first is evicted, and
 * starts again at 0 if it is used again. `evictions` counts them; a value above 0 means that the table is too small.
 */
export class CounterTable {
  readonly #memory: CounterMemory;
  readonly #numbers: Float64Array;
  readonly #words: Int32Array;
  readonly #text: Buffer;

  /**
   * `memory` comes from `createCounterMemory` and is the same for all threads; `owner` is 1 to 2^31-1 and unique to
   * this thread.
   */
  constructor(memory: SharedArrayBuffer, owner: number) {
    this.#memory = new CounterMemory(memory, owner);
    this.#numbers = this.#memory.numbers;
    this.#words = this.#memory.words;
    this.#text = this.#memory.text;
  }

  /** Maximum number of counters. */
  get capacity(): number {
    return this.#memory.capacity;
  }

  /** Counters that all threads evicted before their window ended, since the memory was created. */
  get evictions(): number {
    return this.#memory.evictions;
  }

  /** Applies one step (see `CounterStep`) and returns the counter's value after it. Other threads wait for the lock. */
  apply(key: string, hits: number, windowEndSeconds: number, nowSeconds: number): number {
    const digest = hash("sha256", this.#memory.seed + key, "latin1");
    const bucket = bucketOf(digest, this.#memory.buckets);
    this.#memory.locks.lock(bucket);
    try {
      const slot = this.#find(bucket * ways, digest);
      if (slot !== -1) return this.#add(slot, hits, windowEndSeconds);
      if (hits > 0) this.#create(bucket * ways, { key, digest, count: hits, windowEndSeconds }, nowSeconds);
      return Math.max(0, hits);
    } finally {
      // Other threads would wait for ever.
      this.#memory.locks.unlock(bucket);
    }
  }

  /** Releases the locks of a thread that ended while it held some. The thread must not run any more. */
  releaseLocksOf(owner: number): number {
    return this.#memory.locks.releaseAll(owner);
  }

  /** Returns the counters of running windows, in no order. Takes no lock, so it never delays calls. */
  *entries(nowSeconds: number): Generator<LiveCounter> {
    for (let slot = 0; slot < this.capacity; slot++) {
      const windowEndSeconds = this.#numbers[slot * slotNumbers + offsets.number.windowEnd] ?? 0;
      if (windowEndSeconds <= nowSeconds) continue;
      const count = this.#numbers[slot * slotNumbers + offsets.number.count] ?? 0;
      const text = slot * slotBytes + offsets.byte.text;
      const length = this.#words[slot * slotWords + offsets.word.textLength] ?? 0;
      yield { key: this.#text.toString("utf8", text, text + length), count, windowEndSeconds };
    }
  }

  #add(slot: number, hits: number, windowEndSeconds: number): number {
    const count = slot * slotNumbers + offsets.number.count;
    const windowEnd = slot * slotNumbers + offsets.number.windowEnd;
    const after = Math.min(maxCount, Math.max(0, (this.#numbers[count] ?? 0) + hits));
    this.#numbers[count] = after;
    // After a change of its unit, a limit may continue a counter that began with a shorter window.
    this.#numbers[windowEnd] = Math.max(this.#numbers[windowEnd] ?? 0, windowEndSeconds);
    return after;
  }

  #find(first: number, digest: string): number {
    const a = wordOf(digest, 0);
    const words = this.#words;
    for (let slot = first; slot < first + ways; slot++) {
      const fingerprint = slot * slotWords + offsets.word.fingerprint;
      if (
        words[fingerprint] === a &&
        words[fingerprint + 1] === wordOf(digest, 4) &&
        words[fingerprint + 2] === wordOf(digest, 8) &&
        words[fingerprint + 3] === wordOf(digest, 12) &&
        this.#numbers[slot * slotNumbers + offsets.number.windowEnd] !== 0
      ) {
        return slot;
      }
    }
    return -1;
  }

  #create(
    first: number,
    counter: {
      readonly key: string;
      readonly digest: string;
      readonly count: number;
      readonly windowEndSeconds: number;
    },
    nowSeconds: number,
  ): void {
    const slot = this.#slotToReuse(first, nowSeconds);
    const number = slot * slotNumbers;
    const word = slot * slotWords;
    // The slot is free while it is being written: a thread that dies here leaves no mixture of two counters.
    this.#numbers[number + offsets.number.windowEnd] = 0;
    this.#numbers[number + offsets.number.count] = counter.count;
    for (let i = 0; i < 4; i++) this.#words[word + offsets.word.fingerprint + i] = wordOf(counter.digest, i * 4);
    this.#words[word + offsets.word.textLength] = this.#text.write(
      counter.key,
      slot * slotBytes + offsets.byte.text,
      maxTextBytes,
    );
    this.#numbers[number + offsets.number.windowEnd] = counter.windowEndSeconds;
  }

  /** Returns a free slot, else the one whose window ends first. */
  #slotToReuse(first: number, nowSeconds: number): number {
    let soonest = first;
    let soonestEnd = Infinity;
    for (let slot = first; slot < first + ways; slot++) {
      const end = this.#numbers[slot * slotNumbers + offsets.number.windowEnd] ?? 0;
      if (end <= nowSeconds) return slot;
      if (end < soonestEnd) {
        soonestEnd = end;
        soonest = slot;
      }
    }
    this.#memory.countEviction();
    return soonest;
  }
}
