/**
 * The sliding windows of a process in one SharedArrayBuffer, so that its worker threads share them. Like the counters
 * (`counter-table.ts`) they are in buckets of slots, found by their fingerprint, but a slot has the hits of each
 * sub-window:
 *
 *     slot   0  newest sub-window  f64     24  fingerprint      4 × i32     44  text of the key, 108 bytes of UTF-8
 *            8  windowSeconds      f64     40  length of text   i32        152  hits of 61 sub-windows, f64 each
 *           16  freeAtSeconds      f64
 *
 * The hits of a sub-window are at its number modulo 61. A slot is free from the second on in which its last hits leave
 * the window. A slot of zeros is free.
 */
import { hash } from "node:crypto";
import { bucketOf, CounterMemory, createCounterMemory, ways, wordOf } from "@gatewayproxy/runtime/counter-memory";
import { countedSubWindows, subWindowAt, subWindows } from "@gatewayproxy/runtime/sliding-window";
import { type GroupCount, type LiveCounter, maxCount } from "../model/counter-store.ts";
import { subWindowLeavesMs } from "../model/limit-window.ts";
import { beginsWithAny } from "./counter-table.ts";

const slotBytes = 640;
const slotNumbers = slotBytes / 8;
const slotWords = slotBytes / 4;

const offsets = {
  number: { newest: 0, windowSeconds: 1, freeAt: 2, hits: 19 },
  word: { fingerprint: 6, textLength: 10 },
  byte: { text: 44 },
} as const;

const maxTextBytes = offsets.number.hits * 8 - offsets.byte.text;

/** One of so many counters in memory may be a sliding window. */
const countersPerSlidingWindow = 8;

/**
 * Creates empty memory with its own secret, for a process with `counters` counters (`createCounterMemory`). It has an
 * eighth as many sliding windows, rounded up to whole buckets. Pages that are never used take no memory.
 */
export function createSlidingMemory(counters: number): SharedArrayBuffer {
  return createCounterMemory(Math.ceil(counters / countersPerSlidingWindow), { slotBytes });
}

/** The length of a sliding window, and the sub-window of a call. */
export interface SlidingTime {
  readonly windowSeconds: number;
  readonly subWindow: number;
}

/** A sliding window whose lock is held. */
export interface LockedWindow {
  /** Index of the lock. */
  readonly bucket: number;
  /**
   * Returns the hits in the window that ends with the sub-window of the call.
   * @param needed a function of the hits that returns how many of them must leave
   */
  read(time: SlidingTime, needed: (before: number) => number): GroupCount;
  /** Adds hits, or refunds them from the oldest on. */
  add(time: SlidingTime, hits: number, nowSeconds: number): void;
  /**
   * Replaces all hits by `count` hits in the sub-window of the call; 0 deletes the window. Returns whether it existed.
   */
  replace(time: SlidingTime, count: number, nowSeconds: number): boolean;
}

/** One thread's access to the sliding windows. When a bucket is full, the window whose hits leave first is evicted. */
export class SlidingTable {
  readonly #memory: CounterMemory;
  readonly #numbers: Float64Array;
  readonly #words: Int32Array;
  readonly #text: Buffer;

  /** `memory` comes from `createSlidingMemory`; `owner` is that of the counter table of the thread. */
  constructor(memory: SharedArrayBuffer, owner: number) {
    this.#memory = new CounterMemory(memory, owner);
    this.#numbers = this.#memory.numbers;
    this.#words = this.#memory.words;
    this.#text = this.#memory.text;
  }

  /** Maximum number of sliding windows. */
  get capacity(): number {
    return this.#memory.capacity;
  }

  /** Windows that all threads evicted before their hits had left, since the memory was created. */
  get evictions(): number {
    return this.#memory.evictions;
  }

  /** Returns a window for `withLocks`, which holds the lock of its bucket meanwhile. Nothing is read before. */
  window(key: string): LockedWindow {
    const digest = hash("sha256", this.#memory.seed + key, "latin1");
    const bucket = bucketOf(digest, this.#memory.buckets);
    const find = () => this.#find(bucket * ways, digest);
    return {
      bucket,
      read: (time, needed) => this.#read(find(), time, needed),
      add: (time, hits, nowSeconds) => {
        let slot = find();
        if (slot === -1 && hits > 0) slot = this.#create(bucket * ways, { key, digest, time }, nowSeconds);
        if (slot === -1) return;
        if (hits > 0) this.#add(slot, time.subWindow, hits);
        else this.#refund(slot, time.subWindow, -hits);
      },
      replace: (time, count, nowSeconds) => {
        const existing = find();
        if (existing !== -1) this.#free(existing);
        if (count > 0) {
          this.#add(this.#create(bucket * ways, { key, digest, time }, nowSeconds), time.subWindow, count);
        }
        return existing !== -1;
      },
    };
  }

  /** As `CounterTable.withLocks`. A thread that also takes locks of counters takes those first. */
  withLocks<T>(buckets: readonly number[], use: () => T): T {
    const ascending = [...new Set(buckets)].sort((a, b) => a - b);
    for (const bucket of ascending) this.#memory.locks.lock(bucket);
    try {
      return use();
    } finally {
      for (const bucket of ascending) this.#memory.locks.unlock(bucket);
    }
  }

  /** As `CounterTable.deleteByPrefix`. */
  deleteByPrefix(prefixes: readonly string[], nowSeconds: number): number {
    const beginnings = prefixes.map((prefix) => Buffer.from(prefix));
    let deleted = 0;
    for (let bucket = 0; bucket < this.#memory.buckets; bucket++) {
      this.withLocks([bucket], () => {
        for (let slot = bucket * ways; slot < (bucket + 1) * ways; slot++) {
          if (!this.#beginsWith(slot, beginnings)) continue;
          if (this.#number(slot, offsets.number.freeAt) > nowSeconds) deleted++;
          this.#free(slot);
        }
      });
    }
    return deleted;
  }

  /** Releases the locks of a thread that ended while it held some. The thread must not run any more. */
  releaseLocksOf(owner: number): number {
    return this.#memory.locks.releaseAll(owner);
  }

  /** Returns the windows with hits, in no order; their end is the time at which the last hits leave. Takes no lock. */
  *entries(nowSeconds: number): Generator<LiveCounter> {
    for (let slot = 0; slot < this.capacity; slot++) {
      const windowEndSeconds = this.#number(slot, offsets.number.freeAt);
      if (windowEndSeconds <= nowSeconds) continue;
      const now = subWindowAt(nowSeconds * 1_000, this.#number(slot, offsets.number.windowSeconds) * 1_000);
      const newest = this.#number(slot, offsets.number.newest);
      let count = 0;
      for (let at = Math.max(newest, now) - subWindows; at <= newest; at++) {
        count += this.#number(slot, this.#hitsAt(at));
      }
      const text = slot * slotBytes + offsets.byte.text;
      const length = this.#words[slot * slotWords + offsets.word.textLength] ?? 0;
      yield { key: this.#text.toString("utf8", text, text + length), count, windowEndSeconds };
    }
  }

  #read(slot: number, { subWindow }: SlidingTime, needed: (before: number) => number): GroupCount {
    if (slot === -1) return { before: 0 };
    this.#returnFrom(slot, subWindow);
    const newest = this.#number(slot, offsets.number.newest);
    const oldest = Math.max(newest, subWindow) - subWindows;
    let before = 0;
    for (let at = oldest; at <= newest; at++) before += this.#number(slot, this.#hitsAt(at));
    if (before === 0) return { before };
    let left = Math.max(1, needed(before));
    let freesWith = newest;
    for (let at = oldest; at <= newest && left > 0; at++) {
      const hits = this.#number(slot, this.#hitsAt(at));
      if (hits > 0) freesWith = at;
      left -= hits;
    }
    return { before: Math.min(maxCount, before), freesWith };
  }

  /**
   * Makes all hits those of `subWindow` if the newest are ahead of it by more than a window: a clock was wrong, and
   * they would stay until it shows that time again. Hits that are ahead by less stay where they are, and further ones
   * are added to the newest. So a clock that is set back lets no hits leave early.
   */
  #returnFrom(slot: number, subWindow: number): void {
    if (this.#number(slot, offsets.number.newest) <= subWindow + subWindows) return;
    const first = slot * slotNumbers + offsets.number.hits;
    const all = this.#numbers.subarray(first, first + countedSubWindows);
    const sum = all.reduce((total, hits) => total + hits, 0);
    all.fill(0);
    this.#setNumber(slot, this.#hitsAt(subWindow), Math.min(maxCount, sum));
    this.#setNumber(slot, offsets.number.newest, subWindow);
    this.#setFreeAt(slot);
  }

  #add(slot: number, subWindow: number, hits: number): void {
    const newest = this.#number(slot, offsets.number.newest);
    const cleared = Math.min(countedSubWindows, subWindow - newest);
    for (let i = 0; i < cleared; i++) this.#setNumber(slot, this.#hitsAt(subWindow - i), 0);
    const target = Math.max(newest, subWindow);
    this.#setNumber(slot, offsets.number.newest, target);
    const at = this.#hitsAt(target);
    this.#setNumber(slot, at, Math.min(maxCount, this.#number(slot, at) + hits));
    this.#setFreeAt(slot);
  }

  #refund(slot: number, subWindow: number, hits: number): void {
    const newest = this.#number(slot, offsets.number.newest);
    let left = hits;
    for (let at = Math.max(newest, subWindow) - subWindows; at <= newest && left > 0; at++) {
      const taken = Math.min(left, this.#number(slot, this.#hitsAt(at)));
      this.#setNumber(slot, this.#hitsAt(at), this.#number(slot, this.#hitsAt(at)) - taken);
      left -= taken;
    }
  }

  #setFreeAt(slot: number): void {
    const windowSeconds = this.#number(slot, offsets.number.windowSeconds);
    const leavesMs = subWindowLeavesMs(windowSeconds, this.#number(slot, offsets.number.newest));
    this.#setNumber(slot, offsets.number.freeAt, Math.ceil(leavesMs / 1_000));
  }

  #free(slot: number): void {
    this.#setNumber(slot, offsets.number.freeAt, 0);
  }

  #number(slot: number, offset: number): number {
    return this.#numbers[slot * slotNumbers + offset] ?? 0;
  }

  #setNumber(slot: number, offset: number, value: number): void {
    this.#numbers[slot * slotNumbers + offset] = value;
  }

  /** Offset of the hits of a sub-window; clocks before 1970 have negative ones. */
  #hitsAt(subWindow: number): number {
    const rest = subWindow % countedSubWindows;
    return offsets.number.hits + (rest < 0 ? rest + countedSubWindows : rest);
  }

  #beginsWith(slot: number, beginnings: readonly Buffer[]): boolean {
    if (this.#number(slot, offsets.number.freeAt) === 0) return false;
    const length = this.#words[slot * slotWords + offsets.word.textLength] ?? 0;
    return beginsWithAny(this.#text, slot * slotBytes + offsets.byte.text, length, beginnings);
  }

  #find(first: number, digest: string): number {
    const words = this.#words;
    for (let slot = first; slot < first + ways; slot++) {
      const fingerprint = slot * slotWords + offsets.word.fingerprint;
      if (
        words[fingerprint] === wordOf(digest, 0) &&
        words[fingerprint + 1] === wordOf(digest, 4) &&
        words[fingerprint + 2] === wordOf(digest, 8) &&
        words[fingerprint + 3] === wordOf(digest, 12) &&
        this.#number(slot, offsets.number.freeAt) !== 0
      ) {
        return slot;
      }
    }
    return -1;
  }

  #create(
    first: number,
    { key, digest, time }: { readonly key: string; readonly digest: string; readonly time: SlidingTime },
    nowSeconds: number,
  ): number {
    const slot = this.#slotToReuse(first, nowSeconds);
    // The slot is free while it is being written: a thread that dies here leaves no mixture of two windows.
    this.#free(slot);
    this.#numbers.fill(0, slot * slotNumbers + offsets.number.hits, (slot + 1) * slotNumbers);
    this.#setNumber(slot, offsets.number.newest, time.subWindow);
    this.#setNumber(slot, offsets.number.windowSeconds, time.windowSeconds);
    const word = slot * slotWords;
    for (let i = 0; i < 4; i++) this.#words[word + offsets.word.fingerprint + i] = wordOf(digest, i * 4);
    const text = slot * slotBytes + offsets.byte.text;
    this.#words[word + offsets.word.textLength] = this.#text.write(key, text, maxTextBytes);
    this.#setFreeAt(slot);
    return slot;
  }

  /** Returns a free slot, else the one whose hits leave first. */
  #slotToReuse(first: number, nowSeconds: number): number {
    let soonest = first;
    let soonestEnd = Infinity;
    for (let slot = first; slot < first + ways; slot++) {
      const end = this.#number(slot, offsets.number.freeAt);
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
