/**
 * The counters of a process in one SharedArrayBuffer (see runtime's counter-memory.ts for its layout), so that its
 * worker threads share them.
 *
 * slot   0  count             f64     16  fingerprint  4 × i32     40  keptUntilSeconds  f64
 * 8  windowEndSeconds  f64     32  length of the text, i32     48  text of the key, 80 bytes of UTF-8
 *
 * A slot that is no longer kept, which is from the end of its window on unless the step says otherwise, is free. Until
 * it is reused, its counter serves calls that arrived in the window and are counted after its end. A slot of zeros is
 * free, so new memory needs no initialization.
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
  number: { count: 0, windowEnd: 1, keptUntil: 5 },
  word: { fingerprint: 4, textLength: 8 },
  byte: { text: 48 },
} as const;

/** Longest beginning of a key that is stored. */
export const maxTextBytes = slotBytes - offsets.byte.text;

/** The end of a counter, in seconds since the epoch. */
export interface CounterEnd {
  readonly windowEndSeconds: number;
  /** At least the end of the window. */
  readonly keptUntilSeconds: number;
}

/** A counter whose lock is held, for reads and changes of several counters at once. */
export interface LockedCounter {
  /** Index of the lock. */
  readonly bucket: number;
  read(): number;
  /** Sets the value; one above 0 creates the counter. */
  write(count: number, end: CounterEnd, nowSeconds: number): void;
}

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

  /**
   * Applies one step (see `CounterStep`) and returns the counter's value after it. Other threads wait for the lock.
   * @param keptUntilSeconds seconds since the epoch; the default is the end of the window
   */
  apply(
    key: string,
    hits: number,
    windowEndSeconds: number,
    nowSeconds: number,
    keptUntilSeconds = windowEndSeconds,
  ): number {
    const end = { windowEndSeconds, keptUntilSeconds };
    const digest = hash("sha256", this.#memory.seed + key, "latin1");
    const bucket = bucketOf(digest, this.#memory.buckets);
    this.#memory.locks.lock(bucket);
    try {
      const slot = this.#find(bucket * ways, digest);
      if (slot !== -1) return this.#add(slot, hits, end);
      if (hits > 0) this.#create(bucket * ways, { key, digest, count: hits, end }, nowSeconds);
      return Math.max(0, hits);
    } finally {
      // Other threads would wait for ever.
      this.#memory.locks.unlock(bucket);
    }
  }

  /**
   * Returns a counter for `withLocks`, which holds the lock of its bucket meanwhile. Nothing is read before.
   */
  counter(key: string): LockedCounter {
    const digest = hash("sha256", this.#memory.seed + key, "latin1");
    const bucket = bucketOf(digest, this.#memory.buckets);
    const find = () => this.#find(bucket * ways, digest);
    return {
      bucket,
      read: () => {
        const slot = find();
        return slot === -1 ? 0 : (this.#numbers[slot * slotNumbers + offsets.number.count] ?? 0);
      },
      write: (count, end, nowSeconds) => {
        const slot = find();
        if (slot === -1 && count > 0) this.#create(bucket * ways, { key, digest, count, end }, nowSeconds);
        else if (slot !== -1) this.#set(slot, count, end);
      },
    };
  }

  /** Runs `use` with the locks of these buckets. The thread holds no other lock of this table. */
  withLocks<T>(buckets: readonly number[], use: () => T): T {
    const ascending = [...new Set(buckets)].sort((a, b) => a - b);
    const { locks } = this.#memory;
    for (const bucket of ascending) locks.lock(bucket);
    try {
      return use();
    } finally {
      for (const bucket of ascending) locks.unlock(bucket);
    }
  }

  /** Deletes a counter. Returns whether its window was running. */
  delete(key: string, nowSeconds: number): boolean {
    const digest = hash("sha256", this.#memory.seed + key, "latin1");
    const bucket = bucketOf(digest, this.#memory.buckets);
    return this.withLocks([bucket], () => {
      const slot = this.#find(bucket * ways, digest);
      return slot !== -1 && this.#free(slot, nowSeconds);
    });
  }

  /**
   * Deletes the counters whose text begins with one of the prefixes, at most `maxTextBytes` long. Returns their number.
   */
  deleteByPrefix(prefixes: readonly string[], nowSeconds: number): number {
    const beginnings = prefixes.map((prefix) => Buffer.from(prefix));
    let deleted = 0;
    for (let bucket = 0; bucket < this.#memory.buckets; bucket++) {
      this.withLocks([bucket], () => {
        for (let slot = bucket * ways; slot < (bucket + 1) * ways; slot++) {
          if (this.#beginsWith(slot, beginnings) && this.#free(slot, nowSeconds)) deleted++;
        }
      });
    }
    return deleted;
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

  #add(slot: number, hits: number, end: CounterEnd): number {
    const count = this.#numbers[slot * slotNumbers + offsets.number.count] ?? 0;
    const after = Math.min(maxCount, Math.max(0, count + hits));
    this.#set(slot, after, end);
    return after;
  }

  #set(slot: number, count: number, { windowEndSeconds, keptUntilSeconds }: CounterEnd): void {
    const windowEnd = slot * slotNumbers + offsets.number.windowEnd;
    const keptUntil = slot * slotNumbers + offsets.number.keptUntil;
    this.#numbers[slot * slotNumbers + offsets.number.count] = count;
    // After a change of its unit, a limit may continue a counter that began with a shorter window.
    this.#numbers[windowEnd] = Math.max(this.#numbers[windowEnd] ?? 0, windowEndSeconds);
    this.#numbers[keptUntil] = Math.max(this.#numbers[keptUntil] ?? 0, keptUntilSeconds);
  }

  /** Frees a slot. Returns whether its window was running. */
  #free(slot: number, nowSeconds: number): boolean {
    const windowEnd = slot * slotNumbers + offsets.number.windowEnd;
    const wasRunning = (this.#numbers[windowEnd] ?? 0) > nowSeconds;
    this.#numbers[windowEnd] = 0;
    this.#numbers[slot * slotNumbers + offsets.number.keptUntil] = 0;
    return wasRunning;
  }

  #beginsWith(slot: number, beginnings: readonly Buffer[]): boolean {
    if (this.#numbers[slot * slotNumbers + offsets.number.windowEnd] === 0) return false;
    const length = this.#words[slot * slotWords + offsets.word.textLength] ?? 0;
    return beginsWithAny(this.#text, slot * slotBytes + offsets.byte.text, length, beginnings);
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
      readonly end: CounterEnd;
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
    this.#numbers[number + offsets.number.keptUntil] = counter.end.keptUntilSeconds;
    this.#numbers[number + offsets.number.windowEnd] = counter.end.windowEndSeconds;
  }

  /** Returns a free slot, else one whose window has ended, else the one whose window ends first. */
  #slotToReuse(first: number, nowSeconds: number): number {
    let soonest = first;
    let soonestEnd = Infinity;
    for (let slot = first; slot < first + ways; slot++) {
      const end = this.#numbers[slot * slotNumbers + offsets.number.windowEnd] ?? 0;
      const keptUntil = this.#numbers[slot * slotNumbers + offsets.number.keptUntil] ?? 0;
      if (end === 0 || keptUntil <= nowSeconds) return slot;
      if (end < soonestEnd) {
        soonestEnd = end;
        soonest = slot;
      }
    }
    if (soonestEnd > nowSeconds) this.#memory.countEviction();
    return soonest;
  }
}

/** Returns whether the `length` bytes of `text` from `start` on begin with one of `beginnings`. */
export function beginsWithAny(text: Buffer, start: number, length: number, beginnings: readonly Buffer[]): boolean {
  return beginnings.some(
    (beginning) =>
      beginning.length <= length && text.compare(beginning, 0, beginning.length, start, start + beginning.length) === 0,
  );
}
