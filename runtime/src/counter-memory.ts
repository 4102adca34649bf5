/**
 * The memory of a table of counters that all threads of a process share: set-associative, without allocator and without
 * directory, so that a counter is found by its fingerprint alone.
 *
 *     header | one lock per bucket | buckets of 16 slots of 128 bytes
 *
 * What lies in a slot is its table's own business. The fingerprint is 128 bits of SHA-256, and the bucket is taken from
 * 32 more, over text that begins with the memory's secret: a client that chooses the values that are counted can neither
 * meet another's counter nor aim at its bucket.
 */
import { randomBytes } from "node:crypto";
import { BucketLocks } from "./bucket-locks.ts";

/** Slots of a bucket. */
export const ways = 16;
/** A slot, in bytes, in 64-bit numbers and in 32-bit words. */
export const slotBytes = 128;
export const slotNumbers = slotBytes / 8;
export const slotWords = slotBytes / 4;

const headerBytes = 64;
const seedBytes = 32;

/** Words of the header. */
const evictionsWord = 0;
const seedWord = 8;

/** Makes the memory for `counters` counters, 1 to 16,777,216, rounded up to whole buckets: empty, with its own secret. */
export function createCounterMemory(counters: number): SharedArrayBuffer {
  if (!Number.isInteger(counters) || counters < 1 || counters > 2 ** 24) {
    throw new RangeError(`a counter table of ${counters} counters must have 1 to 16777216`);
  }
  const buckets = Math.ceil(counters / ways);
  const memory = new SharedArrayBuffer(headerBytes + align(buckets * 4) + buckets * ways * slotBytes);
  new Uint8Array(memory, seedWord * 4, seedBytes).set(randomBytes(seedBytes));
  return memory;
}

/** One thread's view of the memory. Inside a bucket's lock plain reads and writes of its slots do. */
export class CounterMemory {
  readonly locks: BucketLocks;
  readonly buckets: number;
  /** The secret that every digest begins with, as latin1 text. */
  readonly seed: string;
  /** All slots, as 64-bit numbers, as 32-bit words, and as bytes for text. */
  readonly numbers: Float64Array;
  readonly words: Int32Array;
  readonly text: Buffer;
  readonly #header: Int32Array;

  /** `memory` is of `createCounterMemory`, the same for all threads; `owner` is 1 to 2^31-1 and this thread's alone. */
  constructor(memory: SharedArrayBuffer, owner: number) {
    // Rounding up the locks takes at most 63 bytes, less than a bucket.
    this.buckets = Math.floor((memory.byteLength - headerBytes) / (4 + ways * slotBytes));
    const slots = headerBytes + align(this.buckets * 4);
    this.#header = new Int32Array(memory, 0, headerBytes / 4);
    this.locks = new BucketLocks(new Int32Array(memory, headerBytes, this.buckets), owner);
    this.numbers = new Float64Array(memory, slots);
    this.words = new Int32Array(memory, slots);
    this.text = Buffer.from(memory, slots);
    this.seed = Buffer.from(memory, seedWord * 4, seedBytes).toString("latin1");
  }

  /** Counters that fit. */
  get capacity(): number {
    return this.buckets * ways;
  }

  /** What `countEviction` was told, by all threads since the memory was made. */
  get evictions(): number {
    return Atomics.load(this.#header, evictionsWord);
  }

  /** A counter was forgotten while its window was open. */
  countEviction(): void {
    Atomics.add(this.#header, evictionsWord, 1);
  }
}

/** The bucket of a digest in a memory of so many. */
export function bucketOf(digest: string, buckets: number): number {
  return (wordOf(digest, 16) >>> 0) % buckets;
}

/** Four bytes of a digest in latin1 as a signed 32-bit number; the first four such words are the fingerprint. */
export function wordOf(digest: string, at: number): number {
  return (
    (digest.charCodeAt(at) << 24) |
    (digest.charCodeAt(at + 1) << 16) |
    (digest.charCodeAt(at + 2) << 8) |
    digest.charCodeAt(at + 3)
  );
}

/** The first slot begins at a multiple of 64, so that none lies across more cache lines than it must. */
function align(bytes: number): number {
  return Math.ceil(bytes / 64) * 64;
}
