/**
 * The counters of a process in one SharedArrayBuffer, so that its worker threads count together: a set-associative table
 * in which a counter is found by the fingerprint of its key alone, without allocator and without directory.
 *
 *     header | one lock per bucket | buckets of 16 slots of 128 bytes
 *
 *     slot   0  count             f64     16  fingerprint  4 × i32     36  text of the key, 92 bytes of UTF-8
 *            8  windowEndSeconds  f64     32  length of the text, i32
 *
 * The fingerprint is 128 bits of SHA-256, and the bucket is taken from 32 more, over text that begins with a secret of
 * the table: a client that chooses descriptor values can neither meet another's counter nor aim at its bucket. A slot
 * whose window has ended is free; one of zeros has ended long ago, so fresh memory needs no preparation.
 */
import { hash, randomBytes } from "node:crypto";
import { BucketLocks } from "@gatewayproxy/runtime/bucket-locks";
import type { LiveCounter } from "./counter-store.ts";

const ways = 16;
const slotBytes = 128;
const slotNumbers = slotBytes / 8;
const slotWords = slotBytes / 4;
const headerBytes = 64;
const seedBytes = 32;

/** Words of the header. */
const evictionsWord = 0;
const seedWord = 8;

/** Places in a slot, in units of its array. */
const at = {
  number: { count: 0, windowEnd: 1 },
  word: { fingerprint: 4, textLength: 8 },
  byte: { text: 36 },
} as const;

const maxTextBytes = slotBytes - at.byte.text;

/** Makes the memory of a table for `counters` counters, 1 to 16,777,216, rounded up to whole buckets. */
export function createCounterMemory(counters: number): SharedArrayBuffer {
  if (!Number.isInteger(counters) || counters < 1 || counters > 2 ** 24) {
    throw new RangeError(`a counter table of ${counters} counters must have 1 to 16777216`);
  }
  const buckets = Math.ceil(counters / ways);
  const memory = new SharedArrayBuffer(headerBytes + align(buckets * 4) + buckets * ways * slotBytes);
  new Uint8Array(memory, seedWord * 4, seedBytes).set(randomBytes(seedBytes));
  return memory;
}

/**
 * One thread's door to the counters. In a full bucket the counter whose window ends first is forgotten, and begins anew
 * if it is asked for again; `evictions` counts them, and above 0 says that the table is too small.
 */
export class CounterTable {
  readonly #locks: BucketLocks;
  readonly #header: Int32Array;
  readonly #numbers: Float64Array;
  readonly #words: Int32Array;
  readonly #text: Buffer;
  readonly #buckets: number;
  readonly #seed: string;

  /** `memory` is of `createCounterMemory`, the same for all threads; `owner` is 1 to 2^31-1 and this thread's alone. */
  constructor(memory: SharedArrayBuffer, owner: number) {
    // Rounding up the locks takes at most 63 bytes, less than a bucket.
    this.#buckets = Math.floor((memory.byteLength - headerBytes) / (4 + ways * slotBytes));
    const slots = headerBytes + align(this.#buckets * 4);
    this.#header = new Int32Array(memory, 0, headerBytes / 4);
    this.#locks = new BucketLocks(new Int32Array(memory, headerBytes, this.#buckets), owner);
    this.#numbers = new Float64Array(memory, slots);
    this.#words = new Int32Array(memory, slots);
    this.#text = Buffer.from(memory, slots);
    this.#seed = Buffer.from(memory, seedWord * 4, seedBytes).toString("latin1");
  }

  /** Counters that fit. */
  get capacity(): number {
    return this.#buckets * ways;
  }

  /** Counters forgotten while their window ran, by all threads since the memory was made. */
  get evictions(): number {
    return Atomics.load(this.#header, evictionsWord);
  }

  /** Takes one step (see `CounterStep`) and returns the counter's value after it. Other threads wait their turn. */
  apply(key: string, hits: number, windowEndSeconds: number, nowSeconds: number): number {
    const digest = hash("sha256", this.#seed + key, "latin1");
    const bucket = (wordOf(digest, 16) >>> 0) % this.#buckets;
    this.#locks.lock(bucket);
    const slot = this.#find(bucket * ways, digest, nowSeconds);
    let after = Math.max(0, hits);
    if (slot !== -1) {
      const count = slot * slotNumbers + at.number.count;
      after = Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, (this.#numbers[count] ?? 0) + hits));
      this.#numbers[count] = after;
    } else if (hits > 0) this.#create(bucket * ways, { key, digest, count: hits, windowEndSeconds }, nowSeconds);
    this.#locks.unlock(bucket);
    return after;
  }

  /** Frees the locks of a thread that has ended while it held some. Only for a thread that runs no more. */
  releaseLocksOf(owner: number): number {
    return this.#locks.releaseAll(owner);
  }

  /** The counters of running windows, in no order. Takes no lock, so a look never holds up calls. */
  *entries(nowSeconds: number): Generator<LiveCounter> {
    for (let slot = 0; slot < this.capacity; slot++) {
      const windowEndSeconds = this.#numbers[slot * slotNumbers + at.number.windowEnd] ?? 0;
      if (windowEndSeconds <= nowSeconds) continue;
      const count = this.#numbers[slot * slotNumbers + at.number.count] ?? 0;
      const text = slot * slotBytes + at.byte.text;
      const length = this.#words[slot * slotWords + at.word.textLength] ?? 0;
      yield { key: this.#text.toString("utf8", text, text + length), count, windowEndSeconds };
    }
  }

  #find(first: number, digest: string, nowSeconds: number): number {
    const a = wordOf(digest, 0);
    const words = this.#words;
    for (let slot = first; slot < first + ways; slot++) {
      const print = slot * slotWords + at.word.fingerprint;
      if (
        words[print] === a &&
        words[print + 1] === wordOf(digest, 4) &&
        words[print + 2] === wordOf(digest, 8) &&
        words[print + 3] === wordOf(digest, 12) &&
        (this.#numbers[slot * slotNumbers + at.number.windowEnd] ?? 0) > nowSeconds
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
    const slot = this.#victim(first, nowSeconds);
    const number = slot * slotNumbers;
    const word = slot * slotWords;
    // Free while it is being written: a thread that dies in here leaves no mixture of two counters.
    this.#numbers[number + at.number.windowEnd] = 0;
    this.#numbers[number + at.number.count] = counter.count;
    for (let i = 0; i < 4; i++) this.#words[word + at.word.fingerprint + i] = wordOf(counter.digest, i * 4);
    this.#words[word + at.word.textLength] = this.#text.write(
      counter.key,
      slot * slotBytes + at.byte.text,
      maxTextBytes,
    );
    this.#numbers[number + at.number.windowEnd] = counter.windowEndSeconds;
  }

  /** A free slot, else the one whose window ends first. */
  #victim(first: number, nowSeconds: number): number {
    let soonest = first;
    let soonestEnd = Infinity;
    for (let slot = first; slot < first + ways; slot++) {
      const end = this.#numbers[slot * slotNumbers + at.number.windowEnd] ?? 0;
      if (end <= nowSeconds) return slot;
      if (end < soonestEnd) {
        soonestEnd = end;
        soonest = slot;
      }
    }
    Atomics.add(this.#header, evictionsWord, 1);
    return soonest;
  }
}

/** Four bytes of a digest as a signed 32-bit number. */
function wordOf(digest: string, i: number): number {
  return (
    (digest.charCodeAt(i) << 24) |
    (digest.charCodeAt(i + 1) << 16) |
    (digest.charCodeAt(i + 2) << 8) |
    digest.charCodeAt(i + 3)
  );
}

/** Slots begin at a multiple of 64, so that none lies across two cache lines more than it must. */
function align(bytes: number): number {
  return Math.ceil(bytes / 64) * 64;
}
