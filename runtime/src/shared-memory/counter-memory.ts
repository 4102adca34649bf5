/**
 * The memory of a table of counters that all threads of a process share. It is set-associative, without an allocator
 * and without a directory: a counter is found by its fingerprint alone.
 *
 *     header | one lock per bucket | buckets of 16 slots | a row per slot | a mark per slot
 *
 * Rows and marks exist if the table asks for them. It decides what a slot contains. The fingerprint is 128 bits of a
 * SHA-256 digest. Its last 32 bits select the bucket, so that a slot can be moved to another memory. The digested text
 * begins with the secret of the memory, so a client that chooses the counted values can neither reach another client's
 * counter nor select a bucket.
 */
import { randomBytes } from "node:crypto";
import { BucketLocks } from "./bucket-locks.ts";

/** Slots per bucket. */
export const ways = 16;
/** The size of a slot in bytes, unless a table has larger ones. */
export const slotBytes = 128;
/** The size of a slot in 64-bit numbers. */
export const slotNumbers = slotBytes / 8;
/** The size of a slot in 32-bit words. */
export const slotWords = slotBytes / 4;

const headerBytes = 64;
const seedBytes = 32;

/** Positions in the header, in words. */
const evictionsWord = 0;
const bucketsWord = 1;
const rowWordsWord = 2;
const resetsWord = 3;
const slotBytesWord = 4;
const marksWord = 5;
const seedWord = 8;

/** The sizes of a table. */
export interface CounterShape {
  /** Bytes of a slot, a multiple of 64; 128 by default. */
  readonly slotBytes?: number;
  /** 32-bit words of each slot's row, for tables in which some counters need more than a slot; 0 by default. */
  readonly rowWords?: number;
  /** Whether each slot has a mark; false by default. */
  readonly hasMarks?: boolean;
}

/** Returns a new secret for `createCounterMemory`. */
export function createSeed(): Uint8Array {
  return randomBytes(seedBytes);
}

/**
 * Creates empty memory for `counters` counters, 1 to 16,777,216, rounded up to whole buckets. The
 * operating system provides only the pages in use.
 *
 * @param seed The secret of the memory, 32 bytes; its own by default. The same counters have the same fingerprints with
 *   it.
 * @throws `RangeError` for any other number.
 */
export function createCounterMemory(
  counters: number,
  shape: CounterShape = {},
  seed: Uint8Array = createSeed(),
): SharedArrayBuffer {
  const { slotBytes: bytesOfSlot = slotBytes, rowWords = 0, hasMarks = false } = shape;
  if (!Number.isInteger(counters) || counters < 1 || counters > 2 ** 24) {
    throw new RangeError(`a counter table of ${counters} counters must have 1 to 16777216`);
  }
  const buckets = Math.ceil(counters / ways);
  const slots = headerBytes + align(buckets * 4);
  const bytesWithSlot = bytesOfSlot + rowWords * 4 + (hasMarks ? 1 : 0);
  const memory = new SharedArrayBuffer(slots + buckets * ways * bytesWithSlot);
  const header = new Int32Array(memory);
  header.set([buckets, rowWords], bucketsWord);
  header[slotBytesWord] = bytesOfSlot;
  header[marksWord] = hasMarks ? 1 : 0;
  new Uint8Array(memory, seedWord * 4, seedBytes).set(seed);
  return memory;
}

/** One thread's view of the memory. Slots are read and written without atomics while their bucket's lock is held. */
export class CounterMemory {
  readonly locks: BucketLocks;
  readonly buckets: number;
  /** The secret that every digest begins with, as latin1 text. */
  readonly seed: string;
  /** All slots, as 64-bit numbers, as 32-bit words (`words`), and as bytes (`text`). */
  readonly numbers: Float64Array;
  readonly words: Int32Array;
  readonly text: Buffer;
  /** All rows, one after the other. */
  readonly rows: Uint32Array;
  /** Words of a row; 0 if slots have none. */
  readonly rowWords: number;
  /**
   * A byte per slot, in which a thread that changes the slot sets 1 under the bucket's lock; undefined if slots have
   * none.
   */
  readonly marks: Uint8Array | undefined;
  readonly #header: Int32Array;

  /**
   * @param memory from `createCounterMemory`, the same for all threads.
   * @param owner the number of this thread among them, 1 to 2^31-1.
   */
  constructor(memory: SharedArrayBuffer, owner: number) {
    this.#header = new Int32Array(memory, 0, headerBytes / 4);
    this.buckets = this.#header[bucketsWord] ?? 0;
    this.rowWords = this.#header[rowWordsWord] ?? 0;
    const slots = headerBytes + align(this.buckets * 4);
    const bytes = this.buckets * ways * (this.#header[slotBytesWord] ?? 0);
    this.locks = new BucketLocks(new Int32Array(memory, headerBytes, this.buckets), owner);
    this.numbers = new Float64Array(memory, slots, bytes / 8);
    this.words = new Int32Array(memory, slots, bytes / 4);
    this.text = Buffer.from(memory, slots, bytes);
    const rowWords = this.capacity * this.rowWords;
    this.rows = new Uint32Array(memory, slots + bytes, rowWords);
    this.marks = this.#header[marksWord] === 1 ? new Uint8Array(memory, slots + bytes + rowWords * 4) : undefined;
    this.seed = Buffer.from(memory, seedWord * 4, seedBytes).toString("latin1");
  }

  /** The number of counters that fit. */
  get capacity(): number {
    return this.buckets * ways;
  }

  /** The number of `countEviction` calls of all threads since the memory was created. */
  get evictions(): number {
    return Atomics.load(this.#header, evictionsWord);
  }

  /** The number of `countReset` calls of all threads since the memory was created. */
  get resets(): number {
    return Atomics.load(this.#header, resetsWord);
  }

  /** Counts a reset of counters by an operator, and returns the new number of resets. */
  countReset(): number {
    return Atomics.add(this.#header, resetsWord, 1) + 1;
  }

  /** Counts a counter that was evicted while its window was open. */
  countEviction(): void {
    Atomics.add(this.#header, evictionsWord, 1);
  }
}

/** Returns the index of a digest's bucket, 0 to `buckets` - 1. */
export function bucketOf(digest: string, buckets: number): number {
  return bucketOfFingerprint(wordOf(digest, 12), buckets);
}

/** Returns the index of the bucket of a fingerprint, 0 to `buckets` - 1. `last` is its fourth word. */
export function bucketOfFingerprint(last: number, buckets: number): number {
  return (last >>> 0) % buckets;
}

/** Returns four bytes of a latin1 digest as a signed 32-bit number. The first four such words are the fingerprint. */
export function wordOf(digest: string, at: number): number {
  return (
    (digest.charCodeAt(at) << 24) |
    (digest.charCodeAt(at + 1) << 16) |
    (digest.charCodeAt(at + 2) << 8) |
    digest.charCodeAt(at + 3)
  );
}

/** Rounds up to a multiple of 64, so that no slot spans more cache lines than necessary. */
function align(bytes: number): number {
  return Math.ceil(bytes / 64) * 64;
}
