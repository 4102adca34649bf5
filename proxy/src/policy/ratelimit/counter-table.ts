/**
 * All counters of a replica in one SharedArrayBuffer (see runtime's counter-memory.ts for its layout, counter-slot.ts
 * for that of a slot), in which every worker thread finds a counter by its fingerprint alone.
 *
 * Several counters settle together under all their locks, taken in ascending order. A counter that was never counted,
 * or whose budget is full again, needs no slot. It takes a slot when units are counted. The slot is free for another
 * counter when its window has closed, so no units are lost.
 */
import { systemClock } from "@gatewayproxy/runtime/clock";
import {
  CounterMemory,
  createCounterMemory,
  slotBytes,
  slotNumbers,
  slotWords,
  ways,
  wordOf,
} from "@gatewayproxy/runtime/counter-memory";
import { countedSubWindows } from "@gatewayproxy/runtime/sliding-window";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { LocalLimit } from "../../ir/limit.ts";
import { type CounterId, counterId, type EntryId, entryId, entryLabel, labelOfWords } from "./counter-id.ts";
import {
  calendar,
  concurrent,
  empty,
  epochMask,
  epochShift,
  fixed,
  keyed,
  kinds,
  kindShift,
  offsets,
  packedRow,
  shared,
  sliding,
  slotOf,
  stateMask,
  textBytes,
  textLengthOf,
  textMask,
  textShift,
} from "./counter-slot.ts";
import { unpackRow } from "./packed-row.ts";
import {
  msToReset,
  settleFixed,
  settleSliding,
  type WallClock,
  wallMsAt,
  wholeSeconds,
  type Window,
  type Windows,
} from "./window.ts";

/** The default number of counters: 48 MiB, of which the operating system provides only the pages in use. */
export const defaultCounters = 131_072;

/**
 * Creates the memory of a table for `counters` counters, 1 to 16,777,216. Throws `RangeError` for any other number.
 *
 * @param workers The threads that decide requests; their numbers begin at 1.
 * @param seed As for `createCounterMemory`, for counters that are saved (`SavedSlots`); absent: none is.
 */
export function createCounters(counters: number, workers: number, seed?: Uint8Array): SharedArrayBuffer {
  // Whole cache lines of 64 bytes.
  const rowWords = Math.ceil(Math.max(countedSubWindows, workers) / 16) * 16;
  return createCounterMemory(counters, { rowWords, hasMarks: seed !== undefined }, seed);
}

/** The place in a row, behind the sub-windows, of the units that requests in progress hold. */
const heldPlace = countedSubWindows;
const maxHeld = 0xffff_ffff;

/** Slots that a reset examines between two pauses: a fraction of a millisecond. */
const slotsOfStep = 65_536;
/** Slots that `usage` reads between two pauses: less than a millisecond if all are in use. */
const slotsOfUsageStep = 4_096;

/** A counter that is in use, as shown to operators. */
export interface LiveCounter {
  /** As `CounterTable.labelOf` gives it. */
  readonly entry: string;
  /**
   * Up to 64 bytes of the key's value; undefined for the shared counter of an entry. `unknown` and a fingerprint while
   * the value is not known: the counter was read from a file, and no request has had the value since.
   */
  readonly key: string | undefined;
  /** At the requested time. */
  readonly used: number;
  /** The part of `used` that requests in progress hold, about: all of a concurrent counter, of others reservations. */
  readonly held: number;
  readonly resetSeconds: number;
}

/** The units in open windows of an entry. */
export interface EntryUsage {
  /** Of all of its counters. */
  readonly used: number;
  /** Of the counter with most. */
  readonly most: number;
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
  readonly #rows: Uint32Array;
  readonly #rowWords: number;
  /** Undefined if counters are not saved. */
  readonly #marks: Uint8Array | undefined;
  readonly #owner: number;
  /** Relates the monotonic times of the counters to the calendar. */
  readonly clock: WallClock;
  /** Scratch space for reading slots outside of a decision. */
  readonly #scratch: Window = {
    used: 0,
    startMs: 0,
    lengthMs: 0,
    epoch: 0,
    subWindowUnits: new Uint32Array(countedSubWindows),
  };

  /**
   * @param memory Made by `createCounters`, the same for all threads.
   * @param owner 1..2^31-1, unique to this thread; of threads that decide requests, at most the number of workers.
   */
  constructor(memory: SharedArrayBuffer, owner: number, clock: WallClock = systemClock) {
    this.#memory = new CounterMemory(memory, owner);
    this.clock = clock;
    this.#rows = this.#memory.rows;
    this.#rowWords = this.#memory.rowWords;
    this.#marks = this.#memory.marks;
    this.#owner = owner;
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
   * Ends all requests in progress of a thread that has stopped, after its locks were released. Returns their units.
   */
  releaseUnitsOf(owner: number): number {
    let released = 0;
    for (let slot = 0; slot < this.capacity; slot++) {
      if (this.#unitsOf(owner, slot) > 0) released += this.#releaseUnits(owner, slot);
    }
    return released;
  }

  #releaseUnits(owner: number, slot: number): number {
    const bucket = Math.floor(slot / ways);
    this.#memory.locks.lock(bucket);
    const units = this.#unitsOf(owner, slot);
    const used = slot * slotNumbers + offsets.number.used;
    this.#numbers[used] = Math.max(0, (this.#numbers[used] ?? 0) - units);
    this.#addUnitsOf(owner, slot, -units);
    this.#memory.locks.unlock(bucket);
    return units;
  }

  /** Returns the units of this thread's requests in progress in a slot. The caller holds the bucket's lock. */
  ownUnits(slot: number): number {
    return this.#unitsOf(this.#owner, slot);
  }

  /**
   * Returns the units that requests in progress hold in a slot, at most 2^32 − 1; 0 for -1. Not for concurrent
   * requests.
   */
  heldUnits(slot: number): number {
    return slot === -1 ? 0 : (this.#rows[slot * this.#rowWords + heldPlace] ?? 0);
  }

  /** Adds to the units that `heldUnits` returns. The caller holds the bucket's lock. */
  addHeld(slot: number, units: number): void {
    const place = slot * this.#rowWords + heldPlace;
    this.#rows[place] = Math.min(maxHeld, Math.max(0, (this.#rows[place] ?? 0) + units));
  }

  /** Returns 0 for a slot of another kind. */
  #unitsOf(owner: number, slot: number): number {
    const isInUse = ((this.#words[slot * slotWords + offsets.word.state] ?? 0) & stateMask) !== empty;
    const place = owner - 1;
    if (!isInUse || this.#kindOf(slot) !== concurrent || place >= this.#rowWords) return 0;
    return this.#rows[slot * this.#rowWords + place] ?? 0;
  }

  #addUnitsOf(owner: number, slot: number, units: number): void {
    const place = slot * this.#rowWords + owner - 1;
    this.#rows[place] = Math.max(0, (this.#rows[place] ?? 0) + units);
  }

  #clearUnits(slot: number): void {
    this.#rows.fill(0, slot * this.#rowWords, (slot + 1) * this.#rowWords);
    this.#numbers[slot * slotNumbers + offsets.number.used] = 0;
  }

  /**
   * Returns the slot of a counter, or -1 if it has none, which means that its budget is full. The caller holds the
   * bucket's lock.
   */
  find(id: CounterId): number {
    const slot = slotOf(this.#words, id.bucket * ways, ways, id);
    if (slot === -1) return -1;
    const state = this.#words[slot * slotWords + offsets.word.state] ?? empty;
    if (state === empty) return -1;
    if (textLengthOf(state) > textBytes) this.#complete(slot, id, state);
    return slot;
  }

  /** Gives a counter that was read from a file its row and the text of its key. */
  #complete(slot: number, { key = "" }: CounterId, state: number): void {
    const text = slot * slotBytes + offsets.byte.text;
    const row = slot * this.#rowWords;
    if (textLengthOf(state) === packedRow) {
      unpackRow(this.#text, text, this.#rows.subarray(row, row + countedSubWindows));
    }
    const length = this.#text.write(key, text, textBytes);
    this.#words[slot * slotWords + offsets.word.state] = (state & ~(textMask << textShift)) | (length << textShift);
  }

  /**
   * Copies a counter out of its slot; a `slot` of -1 is a counter with a full budget. The caller holds the bucket's
   * lock.
   */
  load(slot: number, { kind }: Windows, window: Window): void {
    if (slot === -1) {
      window.used = 0;
      window.epoch = this.#memory.resets & epochMask;
    } else {
      this.#load(slot, kinds[kind], window);
    }
  }

  #load(slot: number, kind: number, window: Window): void {
    const base = slot * slotNumbers;
    window.used = this.#numbers[base + offsets.number.used] ?? 0;
    window.startMs = this.#numbers[base + offsets.number.startMs] ?? 0;
    window.epoch = this.#epochOf(slot);
    if (kind === fixed) return;
    window.lengthMs = this.#windowMsOf(slot);
    if (kind !== sliding) return;
    if (textLengthOf(this.#words[slot * slotWords + offsets.word.state] ?? empty) === packedRow) {
      unpackRow(this.#text, slot * slotBytes + offsets.byte.text, window.subWindowUnits);
      return;
    }
    const row = slot * this.#rowWords;
    for (let place = 0; place < countedSubWindows; place++) window.subWindowUnits[place] = this.#rows[row + place] ?? 0;
  }

  /** Copies a counter into its slot and marks it as used at `nowMs`. The caller holds the bucket's lock. */
  store(slot: number, { kind }: Windows, window: Window, nowMs: number): void {
    const base = slot * slotNumbers;
    if (kind === "Concurrent") {
      this.#addUnitsOf(this.#owner, slot, window.used - (this.#numbers[base + offsets.number.used] ?? 0));
    }
    this.#numbers[base + offsets.number.startMs] = window.startMs;
    this.#numbers[base + offsets.number.used] = window.used;
    this.#numbers[base + offsets.number.lastUsedMs] = nowMs;
    if (this.#marks !== undefined) this.#marks[slot] = 1;
    if (kind === "Fixed" || kind === "Concurrent") return;
    if (kind === "Calendar") {
      this.#words[slot * slotWords + offsets.word.windowSeconds] = window.lengthMs / 1_000;
      return;
    }
    const row = slot * this.#rowWords;
    for (let place = 0; place < countedSubWindows; place++) this.#rows[row + place] = window.subWindowUnits[place] ?? 0;
  }

  /** Marks a counter as used at `nowMs`. The caller holds the bucket's lock. */
  touch(slot: number, nowMs: number): void {
    this.#numbers[slot * slotNumbers + offsets.number.lastUsedMs] = nowMs;
  }

  /**
   * Assigns a slot to a counter that has none, and stores `window` in it. The caller holds the bucket's lock. The
   * slot's previous counter is lost. Slots that `find` returned earlier for the same bucket may be reused, unless they
   * hold an open window that was used at `nowMs`. Returns the slot.
   */
  claim(id: CounterId, windows: Windows, window: Window, nowMs: number): number {
    const slot = this.#slotToReuse(id.bucket * ways, nowMs);
    const base = slot * slotWords;
    const words = this.#words;
    // The slot is empty while it is written: a thread that dies here does not leave a mixture of two counters.
    words[base + offsets.word.state] = empty;
    if (windows.kind === "Concurrent") this.#clearUnits(slot);
    // The operating system provides rows that were never written only when they are.
    else if (this.heldUnits(slot) !== 0) this.addHeld(slot, -maxHeld);
    this.store(slot, windows, window, nowMs);
    if (windows.kind === "Fixed" || windows.kind === "Sliding") {
      words[base + offsets.word.windowSeconds] = windows.windowMs / 1_000;
    }
    if (windows.kind === "Fixed") this.#numbers[slot * slotNumbers + offsets.number.refill] = windows.refill;
    const fingerprint = base + offsets.word.fingerprint;
    words[fingerprint] = id.a;
    words[fingerprint + 1] = id.b;
    words[fingerprint + 2] = id.c;
    words[fingerprint + 3] = id.d;
    words[base + offsets.word.entry] = wordOf(id.entry, 0);
    words[base + offsets.word.entry + 1] = wordOf(id.entry, 4);
    const length = id.key === undefined ? 0 : this.#text.write(id.key, slot * slotBytes + offsets.byte.text, textBytes);
    const state = id.key === undefined ? shared : keyed;
    words[base + offsets.word.state] =
      state | (kinds[windows.kind] << kindShift) | (length << textShift) | (window.epoch << epochShift);
    return slot;
  }

  /**
   * Restores all units of the counter, unless it counts requests in progress. Returns whether it had units at `nowMs`.
   * Requests that are in progress refund nothing afterwards, and charge their tokens to the new window.
   */
  resetOne(id: CounterId, nowMs: number): boolean {
    this.#memory.locks.lock(id.bucket);
    try {
      const slot = this.find(id);
      return slot !== -1 && this.#reset(slot, nowMs);
    } finally {
      this.#memory.locks.unlock(id.bucket);
    }
  }

  /**
   * As `resetOne`, for all counters of entries in steps of a fraction of a millisecond. Yields the label of the entry
   * for each counter that had units, and undefined after each step.
   *
   * @param labels As `labelOf` gives them.
   * @param matches Selects counters by the first 64 bytes of their key's value; undefined for a shared counter.
   */
  *reset(
    labels: ReadonlySet<string>,
    nowMs: number,
    matches: (text: string | undefined) => boolean = () => true,
  ): Generator<string | undefined> {
    for (let slot = 0; slot < this.capacity; slot++) {
      if (slot % slotsOfStep === slotsOfStep - 1) yield undefined;
      if (this.#stateOf(slot) === empty || !labels.has(this.#labelOfSlot(slot))) continue;
      const label = this.#resetSelected(slot, labels, nowMs, matches);
      if (label !== undefined) yield label;
    }
  }

  /** Another counter may have taken the slot before it is locked. Returns the label of a counter that had units. */
  #resetSelected(
    slot: number,
    labels: ReadonlySet<string>,
    nowMs: number,
    matches: (text: string | undefined) => boolean,
  ): string | undefined {
    const bucket = Math.floor(slot / ways);
    this.#memory.locks.lock(bucket);
    try {
      const label = this.#labelOfSlot(slot);
      const isSelected = this.#stateOf(slot) !== empty && labels.has(label) && matches(this.#textOf(slot));
      return isSelected && this.#reset(slot, nowMs) ? label : undefined;
    } finally {
      this.#memory.locks.unlock(bucket);
    }
  }

  /** The caller holds the bucket's lock. */
  #reset(slot: number, nowMs: number): boolean {
    if (this.#kindOf(slot) === concurrent) return false;
    const hadUnits = this.#settledWindow(slot, nowMs).used > 0;
    if (this.#marks !== undefined) this.#marks[slot] = 1;
    this.#numbers[slot * slotNumbers + offsets.number.used] = 0;
    let epoch = this.#memory.countReset() & epochMask;
    // One reset may pass all epochs.
    if (epoch === this.#epochOf(slot)) epoch = this.#memory.countReset() & epochMask;
    const state = slot * slotWords + offsets.word.state;
    this.#words[state] = ((this.#words[state] ?? 0) & ~(epochMask << epochShift)) | (epoch << epochShift);
    return hadUnits;
  }

  #stateOf(slot: number): number {
    return (this.#words[slot * slotWords + offsets.word.state] ?? empty) & stateMask;
  }

  #epochOf(slot: number): number {
    return (this.#words[slot * slotWords + offsets.word.state] ?? 0) >>> epochShift;
  }

  #labelOfSlot(slot: number): string {
    const entry = slot * slotWords + offsets.word.entry;
    return labelOfWords(this.#words[entry] ?? 0, this.#words[entry + 1] ?? 0);
  }

  /** Returns the text of the key; undefined for a shared counter. */
  #textOf(slot: number): string | undefined {
    const state = this.#words[slot * slotWords + offsets.word.state] ?? empty;
    if ((state & stateMask) !== keyed) return undefined;
    const length = textLengthOf(state);
    if (length > textBytes) {
      const fingerprint = this.#words[slot * slotWords + offsets.word.fingerprint] ?? 0;
      return `unknown ${(fingerprint >>> 0).toString(16).padStart(8, "0")}`;
    }
    const text = slot * slotBytes + offsets.byte.text;
    return this.#text.toString("utf8", text, text + length);
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

  /**
   * Sums the units of the counters whose window is open at `nowMs`, by the entry as `labelOf` returns it. Takes no
   * lock, as `entries`.
   */
  *usage(nowMs: number): Steps<ReadonlyMap<string, EntryUsage>> {
    const byEntry = new Map<string, EntryUsage>();
    for (let slot = 0; slot < this.capacity; slot++) {
      if (slot % slotsOfUsageStep === slotsOfUsageStep - 1) yield;
      const state = this.#words[slot * slotWords + offsets.word.state] ?? empty;
      if (state === empty) continue;
      const { used } = this.#settledWindow(slot, nowMs);
      if (used === 0 || this.#words[slot * slotWords + offsets.word.state] !== state) continue;
      const label = this.#labelOfSlot(slot);
      const before = byEntry.get(label) ?? { used: 0, most: 0 };
      byEntry.set(label, { used: before.used + used, most: Math.max(before.most, used) });
    }
    return byEntry;
  }

  #read(slot: number, nowMs: number): LiveCounter | undefined {
    const word = slot * slotWords;
    const state = this.#words[word + offsets.word.state] ?? empty;
    const fingerprint = this.#words[word + offsets.word.fingerprint];
    if (state === empty || this.#settledWindow(slot, nowMs).used === 0) return undefined;
    const counter = {
      entry: this.#labelOfSlot(slot),
      key: this.#textOf(slot),
      used: this.#scratch.used,
      held: this.#kindOf(slot) === concurrent ? this.#scratch.used : Math.min(this.#scratch.used, this.heldUnits(slot)),
      resetSeconds: wholeSeconds(this.#msToReset(slot, nowMs)),
    };
    const isSame =
      this.#words[word + offsets.word.state] === state && this.#words[word + offsets.word.fingerprint] === fingerprint;
    return isSame ? counter : undefined;
  }

  /** Returns the window in a slot, settled at `nowMs`; valid until the next call. */
  #settledWindow(slot: number, nowMs: number): Window {
    const window = this.#scratch;
    const kind = this.#kindOf(slot);
    const windowMs = this.#windowMsOf(slot);
    this.#load(slot, kind, window);
    if (window.used === 0) return window;
    if (kind === concurrent) return window;
    if (kind === sliding) settleSliding(window, windowMs, nowMs);
    else if (kind === calendar) window.used = this.#calendarMsLeft(nowMs) > 0 ? window.used : 0;
    else settleFixed(window, this.#numbers[slot * slotNumbers + offsets.number.refill] ?? 0, windowMs, nowMs);
    return window;
  }

  /** As `msToReset`, of the settled window in the scratch space. */
  #msToReset(slot: number, nowMs: number): number {
    const kind = this.#kindOf(slot);
    const windowMs = this.#windowMsOf(slot);
    if (kind === calendar) return this.#calendarMsLeft(nowMs);
    if (kind === concurrent) return msToReset(this.#scratch, { kind: "Concurrent" }, nowMs);
    const windows: Windows = kind === sliding ? { kind: "Sliding", windowMs } : { kind: "Fixed", windowMs, refill: 0 };
    return msToReset(this.#scratch, windows, nowMs);
  }

  /** Returns the rest of the calendar window in the scratch space. */
  #calendarMsLeft(nowMs: number): number {
    return this.#scratch.startMs + this.#scratch.lengthMs - wallMsAt(this.clock, nowMs);
  }

  #kindOf(slot: number): number {
    return ((this.#words[slot * slotWords + offsets.word.state] ?? 0) >> kindShift) & stateMask;
  }

  /** Windows are whole seconds: 32 bits of milliseconds end at 49 days, and those of seconds at 136 years. */
  #windowMsOf(slot: number): number {
    // As an unsigned number: 1,000 calendar months are longer than 2^31 seconds.
    return ((this.#words[slot * slotWords + offsets.word.windowSeconds] ?? 0) >>> 0) * 1_000;
  }

  /** Returns the slot of a bucket to reuse: an unused one first, then the keyed counter used longest ago. */
  #slotToReuse(first: number, nowMs: number): number {
    let oldest = first;
    let oldestRank = Infinity;
    for (let slot = first; slot < first + ways; slot++) {
      const state = (this.#words[slot * slotWords + offsets.word.state] ?? empty) & stateMask;
      if (state === empty || this.#settledWindow(slot, nowMs).used === 0) return slot;
      const lastUsedMs = this.#numbers[slot * slotNumbers + offsets.number.lastUsedMs] ?? 0;
      // Every keyed counter of a window ranks before every other one: no clock reads 2^52 ms. Requests in progress may
      // be old.
      const isFirst = state === keyed && this.#kindOf(slot) !== concurrent;
      const rank = isFirst ? lastUsedMs : lastUsedMs + 2 ** 52;
      if (rank < oldestRank) {
        oldestRank = rank;
        oldest = slot;
      }
    }
    this.#memory.countEviction();
    return oldest;
  }
}
