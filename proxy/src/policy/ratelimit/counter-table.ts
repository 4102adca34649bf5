/**
 * All counters of a replica in one SharedArrayBuffer (see runtime's counter-memory.ts for its layout), in which every
 * worker thread finds a counter by its fingerprint alone.
 *
 *     slot   0  used          f64     32  fingerprint  4 × i32     64  text of the key, 64 bytes of UTF-8
 *            8  startMs       f64     48  entry        2 × i32
 *           16  givenBack     f64     56  windowMs     i32
 *           24  lastUsedMs    f64     60  state, and length of the text above bit 8, i32
 *
 * Several counters settle together under all their locks, taken in ascending order. A counter that was never counted,
 * or whose budget is full again, needs no slot: a slot is taken only when units are counted, and given to another when
 * its window has closed, which loses nothing.
 */
import { CounterMemory, slotBytes, slotNumbers, slotWords, ways, wordOf } from "@gatewayproxy/runtime/counter-memory";
import type { LocalLimit } from "../../ir/limit.ts";
import { type CounterId, counterId, type EntryId, entryId, entryLabel, labelOfWords } from "./counter-id.ts";
import { type Budget, resetSeconds, settle, type Window } from "./window.ts";

/** Counters of a table unless told otherwise: 16 MiB, of which the system provides only what is touched. */
export const defaultCounters = 131_072;

/** Bytes that a slot keeps of its key. */
const textBytes = 64;

/** Places in a slot, in units of its array. */
const at = {
  number: { used: 0, startMs: 1, givenBack: 2, lastUsedMs: 3 },
  word: { fingerprint: 8, entry: 12, windowMs: 14, state: 15 },
  byte: { text: 64 },
} as const;

const stateMask = 0xff;
const empty = 0;
/** The counter of an entry without key, or of its requests without a value: at most one per entry. */
const shared = 1;
const keyed = 2;

/** A counter that is in use, for people to look at. */
export interface LiveCounter {
  /** As `CounterTable.labelOf` gives it. */
  readonly entry: string;
  /** Up to 64 bytes of the key's value; undefined for the shared counter of an entry. */
  readonly key: string | undefined;
  /** As of the moment asked for. */
  readonly used: number;
  readonly resetSeconds: number;
}

/**
 * One thread's door to the counters. The maximum is the number the memory was made for, 131,072 by default: as many
 * counters can be open at once, at about half of it the first buckets of 16 are full. In a full bucket the keyed
 * counter used longest ago is forgotten and its key starts anew with a full budget; the counters of entries without
 * key stay as long as anything else is there to forget. Each open counter forgotten is counted in `evictions`.
 */
export class CounterTable {
  readonly #memory: CounterMemory;
  readonly #numbers: Float64Array;
  readonly #words: Int32Array;
  readonly #text: Buffer;
  /** For looking at slots that are nobody's but the table's own business. */
  readonly #scratch: Window = { used: 0, startMs: 0 };

  /** `memory` is of `createCounterMemory`, the same for all threads; `owner` is 1..2^31-1 and this thread's alone. */
  constructor(memory: SharedArrayBuffer, owner: number) {
    this.#memory = new CounterMemory(memory, owner);
    this.#numbers = this.#memory.numbers;
    this.#words = this.#memory.words;
    this.#text = this.#memory.text;
  }

  /** Counters that fit. */
  get capacity(): number {
    return this.#memory.capacity;
  }

  /** Counters that were forgotten while their window was open, by all threads since the memory was made. */
  get evictions(): number {
    return this.#memory.evictions;
  }

  /** The identity of an entry's counters in this table. */
  entryId(limit: LocalLimit): EntryId {
    return entryId(this.#memory.seed, limit);
  }

  /** What `entries` calls the counters of a limit. */
  labelOf(limit: LocalLimit): string {
    return entryLabel(this.entryId(limit));
  }

  /** The counter of an entry for one value of its key; undefined: the shared one. */
  counterId(entry: EntryId, key: string | undefined): CounterId {
    return counterId(entry, key, this.#memory.buckets);
  }

  /** Takes the locks of `buckets`, which ascend and are distinct. Blocks while other threads hold one of them. */
  lock(buckets: readonly number[]): void {
    for (let index = 0; index < buckets.length; index++) this.#memory.locks.lock(buckets[index] ?? 0);
  }

  unlock(buckets: readonly number[]): void {
    for (let index = 0; index < buckets.length; index++) this.#memory.locks.unlock(buckets[index] ?? 0);
  }

  /**
   * Frees the locks of a thread that has ended without doing so; to be called once it runs no more. Its last request
   * may have been counted in some of its counters and not in others.
   */
  releaseLocksOf(owner: number): number {
    return this.#memory.locks.releaseAll(owner);
  }

  /** The slot of a counter, or -1 where it has none: it is full. Under the bucket's lock. */
  find(id: CounterId): number {
    const words = this.#words;
    const first = id.bucket * ways;
    for (let slot = first; slot < first + ways; slot++) {
      const base = slot * slotWords;
      const print = base + at.word.fingerprint;
      if (
        words[print] === id.a &&
        words[print + 1] === id.b &&
        words[print + 2] === id.c &&
        words[print + 3] === id.d &&
        words[base + at.word.state] !== empty
      ) {
        return slot;
      }
    }
    return -1;
  }

  /** Copies a counter out; a `slot` of -1 is a full one. Under the bucket's lock. */
  load(slot: number, window: Window): void {
    if (slot === -1) {
      window.used = 0;
      return;
    }
    const base = slot * slotNumbers;
    window.used = this.#numbers[base + at.number.used] ?? 0;
    window.startMs = this.#numbers[base + at.number.startMs] ?? 0;
  }

  /** Copies a counter back and marks it as used at `nowMs`. Under the bucket's lock. */
  store(slot: number, window: Window, nowMs: number): void {
    const base = slot * slotNumbers;
    this.#numbers[base + at.number.startMs] = window.startMs;
    this.#numbers[base + at.number.used] = window.used;
    this.#numbers[base + at.number.lastUsedMs] = nowMs;
  }

  /** Marks a counter as used at `nowMs`. Under the bucket's lock. */
  touch(slot: number, nowMs: number): void {
    this.#numbers[slot * slotNumbers + at.number.lastUsedMs] = nowMs;
  }

  /**
   * Gives a counter that has no slot one, with `window` in it. Under the bucket's lock. Whatever was in the slot is
   * forgotten; slots found before in the same bucket may be among them, unless they hold an open window used at
   * `nowMs`.
   */
  claim(id: CounterId, budget: Budget, window: Window, nowMs: number): void {
    const slot = this.#victim(id.bucket * ways, nowMs);
    const base = slot * slotWords;
    const words = this.#words;
    // Empty while it is being written: a thread that dies in here leaves no mixture of two counters.
    words[base + at.word.state] = empty;
    this.store(slot, window, nowMs);
    this.#numbers[slot * slotNumbers + at.number.givenBack] = budget.givenBack;
    words[base + at.word.windowMs] = budget.windowMs;
    const print = base + at.word.fingerprint;
    words[print] = id.a;
    words[print + 1] = id.b;
    words[print + 2] = id.c;
    words[print + 3] = id.d;
    words[base + at.word.entry] = wordOf(id.entry, 0);
    words[base + at.word.entry + 1] = wordOf(id.entry, 4);
    const length = id.key === undefined ? 0 : this.#text.write(id.key, slot * slotBytes + at.byte.text, textBytes);
    words[base + at.word.state] = (id.key === undefined ? shared : keyed) | (length << 8);
  }

  /**
   * The counters whose window is open at `nowMs`, in no order. Takes no lock, so that a look can never hold up
   * traffic: a counter that is being replaced is left out.
   */
  *entries(nowMs: number): Generator<LiveCounter> {
    for (let slot = 0; slot < this.capacity; slot++) {
      const counter = this.#look(slot, nowMs);
      if (counter !== undefined) yield counter;
    }
  }

  #look(slot: number, nowMs: number): LiveCounter | undefined {
    const word = slot * slotWords;
    const state = this.#words[word + at.word.state] ?? empty;
    const print = this.#words[word + at.word.fingerprint];
    if (state === empty || this.#settled(slot, nowMs).used === 0) return undefined;
    const text = slot * slotBytes + at.byte.text;
    const counter = {
      entry: labelOfWords(this.#words[word + at.word.entry] ?? 0, this.#words[word + at.word.entry + 1] ?? 0),
      key: (state & stateMask) === keyed ? this.#text.toString("utf8", text, text + (state >> 8)) : undefined,
      used: this.#scratch.used,
      resetSeconds: resetSeconds(this.#scratch, this.#words[word + at.word.windowMs] ?? 0, nowMs),
    };
    const isSame = this.#words[word + at.word.state] === state && this.#words[word + at.word.fingerprint] === print;
    return isSame ? counter : undefined;
  }

  /** The window in a slot as it stands at `nowMs`; valid until the next call. */
  #settled(slot: number, nowMs: number): Window {
    this.load(slot, this.#scratch);
    const givenBack = this.#numbers[slot * slotNumbers + at.number.givenBack] ?? 0;
    settle(this.#scratch, givenBack, this.#words[slot * slotWords + at.word.windowMs] ?? 0, nowMs);
    return this.#scratch;
  }

  /** The slot of a bucket whose loss costs least. */
  #victim(first: number, nowMs: number): number {
    let oldest = first;
    let oldestRank = Infinity;
    for (let slot = first; slot < first + ways; slot++) {
      const state = (this.#words[slot * slotWords + at.word.state] ?? empty) & stateMask;
      if (state === empty || this.#settled(slot, nowMs).used === 0) return slot;
      const lastUsedMs = this.#numbers[slot * slotNumbers + at.number.lastUsedMs] ?? 0;
      // Any keyed counter before any shared one: no clock reads 2^52 ms.
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
