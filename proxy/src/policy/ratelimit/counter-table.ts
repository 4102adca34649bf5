/**
 * All counters of a replica in one SharedArrayBuffer (see runtime's counter-memory.ts for its layout), in which every
 * worker thread finds a counter by its fingerprint alone.
 *
 *     slot   0  used          f64     32  fingerprint  4 × i32     64  text of the key, 64 bytes of UTF-8
 *            8  startMs       f64     48  entry        2 × i32
 *           16  refill        f64     56  window in s  i32
 *           24  lastUsedMs    f64     60  state, and length of the text above bit 8, i32
 *
 * Several counters settle together under all their locks, taken in ascending order. A counter that was never counted,
 * or whose budget is full again, needs no slot. It takes a slot when units are counted. The slot is free for another
 * counter when its window has closed, so no units are lost.
 */
import { CounterMemory, slotBytes, slotNumbers, slotWords, ways, wordOf } from "@gatewayproxy/runtime/counter-memory";
import type { LocalLimit } from "../../ir/limit.ts";
import { type CounterId, counterId, type EntryId, entryId, entryLabel, labelOfWords } from "./counter-id.ts";
import { type Budget, resetSeconds, settle, type Window } from "./window.ts";

/** The default number of counters: 16 MiB, of which the operating system provides only the pages in use. */
export const defaultCounters = 131_072;

/** Bytes of the key's value that a slot stores. */
const textBytes = 64;

/** Offsets in a slot, in units of the array's elements. */
const offsets = {
  number: { used: 0, startMs: 1, refill: 2, lastUsedMs: 3 },
  word: { fingerprint: 8, entry: 12, windowSeconds: 14, state: 15 },
  byte: { text: 64 },
} as const;

const stateMask = 0xff;
const empty = 0;
/** The counter of an entry without key, or of its requests without a value: at most one per entry. */
const shared = 1;
const keyed = 2;

/** A counter that is in use, as shown to operators. */
export interface LiveCounter {
  /** As `CounterTable.labelOf` gives it. */
  readonly entry: string;
  /** Up to 64 bytes of the key's value; undefined for the shared counter of an entry. */
  readonly key: string | undefined;
  /** At the requested time. */
  readonly used: number;
  readonly resetSeconds: number;
}

/**
 * One thread's access to the counters. The capacity is the number that the memory was created for, 131,072 by default.
 * That many counters can be open at once; from about half of it on, the first buckets of 16 are full. In a full bucket
 * the keyed counter that was used longest ago is evicted, and its key starts again with a full budget. The counters of
 * entries without a key are evicted only when a bucket holds no others. Each eviction of an open counter is counted in
 * `evictions`.
 */
export class CounterTable {
  readonly #memory: CounterMemory;
  readonly #numbers: Float64Array;
  readonly #words: Int32Array;
  readonly #text: Buffer;
  /** Scratch space for reading slots outside of a decision. */
  readonly #scratch: Window = { used: 0, startMs: 0 };

  /**
   * @param memory Made by `createCounterMemory`, the same for all threads.
   * @param owner 1..2^31-1, unique to this thread.
   */
  constructor(memory: SharedArrayBuffer, owner: number) {
    this.#memory = new CounterMemory(memory, owner);
    this.#numbers = this.#memory.numbers;
    this.#words = this.#memory.words;
    this.#text = this.#memory.text;
  }

  /** The number of counters that fit. */
  get capacity(): number {
    return this.#memory.capacity;
  }

  /** Open counters that were evicted by any thread since the memory was created. */
  get evictions(): number {
    return this.#memory.evictions;
  }

  /** Returns the identity of an entry's counters in this table. */
  entryId(limit: LocalLimit): EntryId {
    return entryId(this.#memory.seed, limit);
  }

  /** Returns the label that `entries` gives to the counters of a limit. */
  labelOf(limit: LocalLimit): string {
    return entryLabel(this.entryId(limit));
  }

  /** Returns the counter of an entry for one value of its key, or its shared counter for undefined. */
  counterId(entry: EntryId, key: string | undefined): CounterId {
    return counterId(entry, key, this.#memory.buckets);
  }

  /** Takes the locks of `buckets`, which must ascend and be distinct. Blocks while another thread holds one of them. */
  lock(buckets: readonly number[]): void {
    for (let index = 0; index < buckets.length; index++) this.#memory.locks.lock(buckets[index] ?? 0);
  }

  unlock(buckets: readonly number[]): void {
    for (let index = 0; index < buckets.length; index++) this.#memory.locks.unlock(buckets[index] ?? 0);
  }

  /**
   * Frees the locks of a thread that ended while it held them. Must be called after the thread has stopped. Its last
   * request may be counted in some of its counters and not in others.
   */
  releaseLocksOf(owner: number): number {
    return this.#memory.locks.releaseAll(owner);
  }

  /**
   * Returns the slot of a counter, or -1 if it has none, which means that its budget is full. The caller holds the
   * bucket's lock.
   */
  find(id: CounterId): number {
    const words = this.#words;
    const first = id.bucket * ways;
    for (let slot = first; slot < first + ways; slot++) {
      const base = slot * slotWords;
      const fingerprint = base + offsets.word.fingerprint;
      if (
        words[fingerprint] === id.a &&
        words[fingerprint + 1] === id.b &&
        words[fingerprint + 2] === id.c &&
        words[fingerprint + 3] === id.d &&
        words[base + offsets.word.state] !== empty
      ) {
        return slot;
      }
    }
    return -1;
  }

  /**
   * Copies a counter out of its slot; a `slot` of -1 is a counter with a full budget. The caller holds the bucket's
   * lock.
   */
  load(slot: number, window: Window): void {
    if (slot === -1) {
      window.used = 0;
      return;
    }
    const base = slot * slotNumbers;
    window.used = this.#numbers[base + offsets.number.used] ?? 0;
    window.startMs = this.#numbers[base + offsets.number.startMs] ?? 0;
  }

  /** Copies a counter into its slot and marks it as used at `nowMs`. The caller holds the bucket's lock. */
  store(slot: number, window: Window, nowMs: number): void {
    const base = slot * slotNumbers;
    this.#numbers[base + offsets.number.startMs] = window.startMs;
    this.#numbers[base + offsets.number.used] = window.used;
    this.#numbers[base + offsets.number.lastUsedMs] = nowMs;
  }

  /** Marks a counter as used at `nowMs`. The caller holds the bucket's lock. */
  touch(slot: number, nowMs: number): void {
    this.#numbers[slot * slotNumbers + offsets.number.lastUsedMs] = nowMs;
  }

  /**
   * Assigns a slot to a counter that has none, and stores `window` in it. The caller holds the bucket's lock. The
   * slot's previous counter is lost. Slots that `find` returned earlier for the same bucket may be reused, unless they
   * hold an open window that was used at `nowMs`.
   */
  claim(id: CounterId, budget: Budget, window: Window, nowMs: number): void {
    const slot = this.#slotToReuse(id.bucket * ways, nowMs);
    const base = slot * slotWords;
    const words = this.#words;
    // The slot is empty while it is written: a thread that dies here does not leave a mixture of two counters.
    words[base + offsets.word.state] = empty;
    this.store(slot, window, nowMs);
    this.#numbers[slot * slotNumbers + offsets.number.refill] = budget.refill;
    words[base + offsets.word.windowSeconds] = budget.windowMs / 1_000;
    const fingerprint = base + offsets.word.fingerprint;
    words[fingerprint] = id.a;
    words[fingerprint + 1] = id.b;
    words[fingerprint + 2] = id.c;
    words[fingerprint + 3] = id.d;
    words[base + offsets.word.entry] = wordOf(id.entry, 0);
    words[base + offsets.word.entry + 1] = wordOf(id.entry, 4);
    const length = id.key === undefined ? 0 : this.#text.write(id.key, slot * slotBytes + offsets.byte.text, textBytes);
    words[base + offsets.word.state] = (id.key === undefined ? shared : keyed) | (length << 8);
  }

  /**
   * Lists the counters whose window is open at `nowMs`, in no order. Takes no lock, so that reading never delays
   * traffic. A counter that is being replaced is left out.
   */
  *entries(nowMs: number): Generator<LiveCounter> {
    for (let slot = 0; slot < this.capacity; slot++) {
      const counter = this.#read(slot, nowMs);
      if (counter !== undefined) yield counter;
    }
  }

  #read(slot: number, nowMs: number): LiveCounter | undefined {
    const word = slot * slotWords;
    const state = this.#words[word + offsets.word.state] ?? empty;
    const fingerprint = this.#words[word + offsets.word.fingerprint];
    if (state === empty || this.#settledWindow(slot, nowMs).used === 0) return undefined;
    const text = slot * slotBytes + offsets.byte.text;
    const counter = {
      entry: labelOfWords(this.#words[word + offsets.word.entry] ?? 0, this.#words[word + offsets.word.entry + 1] ?? 0),
      key: (state & stateMask) === keyed ? this.#text.toString("utf8", text, text + (state >> 8)) : undefined,
      used: this.#scratch.used,
      resetSeconds: resetSeconds(this.#scratch, this.#windowMsOf(slot), nowMs),
    };
    const isSame =
      this.#words[word + offsets.word.state] === state && this.#words[word + offsets.word.fingerprint] === fingerprint;
    return isSame ? counter : undefined;
  }

  /** Returns the window in a slot, settled at `nowMs`; valid until the next call. */
  #settledWindow(slot: number, nowMs: number): Window {
    this.load(slot, this.#scratch);
    const refill = this.#numbers[slot * slotNumbers + offsets.number.refill] ?? 0;
    settle(this.#scratch, refill, this.#windowMsOf(slot), nowMs);
    return this.#scratch;
  }

  /** Windows are whole seconds: 32 bits of milliseconds would end at 24 days. */
  #windowMsOf(slot: number): number {
    return (this.#words[slot * slotWords + offsets.word.windowSeconds] ?? 0) * 1_000;
  }

  /** Returns the slot of a bucket to reuse: an unused one first, then the keyed counter used longest ago. */
  #slotToReuse(first: number, nowMs: number): number {
    let oldest = first;
    let oldestRank = Infinity;
    for (let slot = first; slot < first + ways; slot++) {
      const state = (this.#words[slot * slotWords + offsets.word.state] ?? empty) & stateMask;
      if (state === empty || this.#settledWindow(slot, nowMs).used === 0) return slot;
      const lastUsedMs = this.#numbers[slot * slotNumbers + offsets.number.lastUsedMs] ?? 0;
      // Every keyed counter ranks before every shared one: no clock reads 2^52 ms.
      const rank = state === keyed ? lastUsedMs : lastUsedMs + 2 ** 52;
      if (rank < oldestRank) {
        oldestRank = rank;
        oldest = slot;
      }
    }
    this.#memory.countEviction();
    return oldest;
  }
}
