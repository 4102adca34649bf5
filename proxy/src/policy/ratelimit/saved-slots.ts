/**
 * Copies counters out of the shared memory and back, for a file that outlives the process. Only counters of windows
 * longer than a minute are copied: others are over before a process has started again, and so are requests in progress.
 *
 *     record   the slot up to the text of the key, 64 bytes (counter-slot.ts)
 *              of a sliding window: 2 × u32 with a bit for each sub-window that has units, their units as u32, up to a
 *              multiple of 8 bytes
 *
 * The value of a key may identify a person, so it is left out. The last record of a counter counts.
 */
import {
  bucketOfFingerprint,
  CounterMemory,
  slotBytes,
  slotNumbers,
  slotWords,
  ways,
} from "@gatewayproxy/runtime/counter-memory";
import {
  countedSubWindows,
  placeOf,
  subWindowAt,
  subWindowStartMs,
  subWindows,
} from "@gatewayproxy/runtime/sliding-window";
import {
  bytesBeforeText,
  calendar,
  concurrent,
  empty,
  fixed,
  keyed,
  kindShift,
  offsets,
  packedRow,
  shared,
  sliding,
  slotOf,
  stateMask,
  textLengthOf,
  textShift,
  unknownText,
} from "./counter-slot.ts";
import { packRow, SparseRow, unpackRow } from "./packed-row.ts";
import { settleFixed, type Window } from "./window.ts";

/** Windows up to this length are not saved. */
const maxUnsavedSeconds = 60;

const maxRecordBytes = bytesBeforeText + 8 + Math.ceil(countedSubWindows / 2) * 8;
/** Bytes of records in one piece. */
const pieceBytes = 1024 * 1024;
/** Buckets that are examined between two pauses: a fraction of a millisecond. */
const bucketsOfStep = 4_096;

const fingerprintWord: number = offsets.word.fingerprint;
const stateWord: number = offsets.word.state;
const windowWord: number = offsets.word.windowSeconds;
const textByte: number = offsets.byte.text;
const recordNumbers = bytesBeforeText / 8;
const recordWords = bytesBeforeText / 4;

/** The times of records, in relation to the present. */
export interface RecordTimes {
  /** Added to monotonic times of the records. */
  readonly shiftMs: number;
  /** The present, monotonic and on the wall clock. */
  readonly nowMs: number;
  readonly wallMs: number;
}

/** What became of records. */
export interface RestoreCounts {
  /** Counters whose window is open. */
  restored: number;
  /** Counters that found no place, since the memory is smaller than before. */
  leftOut: number;
}

/** One thread's access to the slots. The memory must have marks. */
export class SavedSlots {
  readonly #memory: CounterMemory;
  readonly #marks: Uint8Array;
  /** The marks, four in each number. */
  readonly #marksByFour: Uint32Array;
  readonly #numbers: Float64Array;
  readonly #words: Int32Array;
  /**
   * By bucket, during a restore. Those in use come first; no others are read, as each read of a slot is a miss of the
   * cache.
   */
  readonly #slotsInUse: Uint8Array;
  /** Scratch space. */
  readonly #row = new Uint32Array(countedSubWindows);
  readonly #sparseRow = new SparseRow();
  readonly #fingerprint = { a: 0, b: 0, c: 0, d: 0 };
  readonly #scratch: Window = { used: 0, startMs: 0, lengthMs: 0, epoch: 0, subWindowUnits: this.#row };

  /**
   * @param memory Made by `createCounters` with a seed.
   * @param owner As for `CounterTable`.
   */
  constructor(memory: SharedArrayBuffer, owner: number) {
    this.#memory = new CounterMemory(memory, owner);
    if (this.#memory.marks === undefined) throw new TypeError("the memory of the counters has no marks");
    this.#marks = this.#memory.marks;
    this.#numbers = this.#memory.numbers;
    this.#words = this.#memory.words;
    this.#slotsInUse = new Uint8Array(this.#memory.buckets);
    this.#marksByFour = new Uint32Array(memory, this.#marks.byteOffset, this.#marks.length / 4);
  }

  /**
   * Copies the counters that have changed since the last call, in pieces. Those in a bucket that another thread holds
   * are left to the next call. Returns whether there are none of those.
   */
  *changed(): Generator<Uint8Array, boolean> {
    const writer = new RecordWriter();
    let hasAll = true;
    for (let bucket = 0; bucket < this.#memory.buckets; bucket++) {
      if (!this.#isMarked(bucket)) continue;
      if (!this.#memory.locks.tryLock(bucket)) {
        hasAll = false;
        continue;
      }
      this.#copyBucket(bucket, writer, (slot) => this.#marks[slot] === 1);
      this.#memory.locks.unlock(bucket);
      if (writer.isFull) yield writer.take();
    }
    if (!writer.isEmpty) yield writer.take();
    return hasAll;
  }

  /** Copies all counters, in pieces. Yields undefined for a pause, also while another thread holds a bucket. */
  *all(): Generator<Uint8Array | undefined> {
    const writer = new RecordWriter();
    for (let bucket = 0; bucket < this.#memory.buckets; bucket++) {
      while (!this.#memory.locks.tryLock(bucket)) yield undefined;
      this.#copyBucket(bucket, writer, () => true);
      this.#memory.locks.unlock(bucket);
      if (writer.isFull) yield writer.take();
      else if (bucket % bucketsOfStep === bucketsOfStep - 1) yield undefined;
    }
    if (!writer.isEmpty) yield writer.take();
  }

  #isMarked(bucket: number): boolean {
    const first = (bucket * ways) / 4;
    for (let at = first; at < first + ways / 4; at++) if (this.#marksByFour[at] !== 0) return true;
    return false;
  }

  /** The caller holds the bucket's lock. */
  #copyBucket(bucket: number, writer: RecordWriter, isWanted: (slot: number) => boolean): void {
    for (let slot = bucket * ways; slot < (bucket + 1) * ways; slot++) {
      if (!isWanted(slot)) continue;
      this.#marks[slot] = 0;
      if (this.#isSaved(slot)) this.#copy(slot, writer);
    }
  }

  #isSaved(slot: number): boolean {
    const word = slot * slotWords;
    const state = this.#words[word + stateWord] ?? empty;
    if ((state & stateMask) === empty) return false;
    const seconds = (this.#words[word + windowWord] ?? 0) >>> 0;
    return kindOf(state) !== concurrent && seconds > maxUnsavedSeconds;
  }

  #copy(slot: number, writer: RecordWriter): void {
    const { text, rows, rowWords } = this.#memory;
    const start = slot * slotBytes;
    writer.addSlot(text.subarray(start, start + bytesBeforeText));
    const state = this.#words[slot * slotWords + stateWord] ?? empty;
    if (kindOf(state) !== sliding) return;
    const row = this.#row;
    if (textLengthOf(state) === packedRow) unpackRow(text, start + textByte, row);
    else row.set(rows.subarray(slot * rowWords, slot * rowWords + countedSubWindows));
    writer.addUnits(row);
  }

  /**
   * Puts the counters of records into memory that had none before the first call, in place of their earlier records. No
   * other thread may use the memory meanwhile.
   *
   * @param records As `changed` and `all` give them, aligned to 8 bytes.
   */
  restore(records: Uint8Array, times: RecordTimes, counts: RestoreCounts): void {
    const numbers = new Float64Array(records.buffer, records.byteOffset, records.byteLength / 8);
    const words = new Int32Array(records.buffer, records.byteOffset, records.byteLength / 4);
    const record: SavedRecord = { numbers, words, at: 0, kind: fixed, used: 0, startMs: 0, next: 0 };
    while (record.at < numbers.length) {
      this.#read(record, times);
      this.#restore(record, times.shiftMs, counts);
      record.at = record.next;
    }
  }

  /** Reads the settled window of a record, and finds the next record. */
  #read(record: SavedRecord, { shiftMs, nowMs, wallMs }: RecordTimes): void {
    const { numbers, words, at } = record;
    const windowMs = ((words[at * 2 + windowWord] ?? 0) >>> 0) * 1_000;
    record.kind = kindOf(words[at * 2 + stateWord] ?? 0);
    record.next = at + recordNumbers;
    record.used = numbers[at + offsets.number.used] ?? 0;
    record.startMs = numbers[at + offsets.number.startMs] ?? 0;
    if (record.kind === sliding) {
      this.#readUnits(record, windowMs, shiftMs, nowMs);
    } else if (record.kind === calendar) {
      if (wallMs >= record.startMs + windowMs) record.used = 0;
    } else {
      const window = this.#scratch;
      window.used = record.used;
      window.startMs = record.startMs + shiftMs;
      settleFixed(window, numbers[at + offsets.number.refill] ?? 0, windowMs, nowMs);
      record.used = window.used;
      record.startMs = window.startMs;
    }
  }

  /**
   * Reads the sub-windows that are not over, and moves them to those of the present clock. Where these do not begin at
   * the same times, units count for the later one, so that none is restored early.
   */
  #readUnits(record: SavedRecord, windowMs: number, shiftMs: number, nowMs: number): void {
    const { words, at } = record;
    const row = this.#sparseRow;
    row.length = 0;
    const shift = Math.ceil((shiftMs * subWindows) / windowMs);
    const newest = Math.round((record.startMs * subWindows) / windowMs);
    const newestPlace = placeOf(newest);
    // Older ones are over.
    const oldest = subWindowAt(nowMs, windowMs) - subWindows;
    const first = at * 2 + recordWords;
    let next = first + 2;
    for (let half = 0; half < 2; half++) {
      for (let bits = words[first + half] ?? 0; bits !== 0; bits &= bits - 1) {
        const place = half * 32 + 31 - Math.clz32(bits & -bits);
        const units = (words[next++] ?? 0) >>> 0;
        const age = newestPlace - place + (place > newestPlace ? countedSubWindows : 0);
        const subWindow = newest - age + shift;
        if (subWindow >= oldest) row.add(placeOf(subWindow), units);
        else record.used = Math.max(0, record.used - units);
      }
    }
    record.startMs = subWindowStartMs(newest + shift, windowMs);
    record.next = Math.ceil(next / 2);
  }

  #restore(record: SavedRecord, shiftMs: number, counts: RestoreCounts): void {
    const { numbers, words, at, used } = record;
    const fingerprint = at * 2 + fingerprintWord;
    const id = this.#fingerprint;
    id.a = words[fingerprint] ?? 0;
    id.b = words[fingerprint + 1] ?? 0;
    id.c = words[fingerprint + 2] ?? 0;
    id.d = words[fingerprint + 3] ?? 0;
    const bucket = bucketOfFingerprint(id.d, this.#memory.buckets);
    const lastUsedMs = (numbers[at + offsets.number.lastUsedMs] ?? 0) + shiftMs;
    const inUse = this.#slotsInUse[bucket] ?? 0;
    let slot = slotOf(this.#words, bucket * ways, inUse, id);
    if (slot !== -1) {
      if (this.#usedIn(slot) > 0) counts.restored--;
    } else if (used === 0) {
      return;
    } else if (inUse < ways) {
      this.#slotsInUse[bucket] = inUse + 1;
      slot = bucket * ways + inUse;
    } else {
      slot = this.#oldest(bucket, lastUsedMs);
      if (slot === -1 || this.#usedIn(slot) > 0) counts.leftOut++;
      if (slot === -1) return;
      if (this.#usedIn(slot) > 0) counts.restored--;
    }
    if (used > 0) counts.restored++;
    this.#write(slot, record, lastUsedMs);
  }

  #usedIn(slot: number): number {
    return this.#numbers[slot * slotNumbers + offsets.number.used] ?? 0;
  }

  /** Returns the slot of the counter used longest ago; -1 if no counter was used before `lastUsedMs`. */
  #oldest(bucket: number, lastUsedMs: number): number {
    let oldest = -1;
    let oldestMs = lastUsedMs;
    for (let slot = bucket * ways; slot < (bucket + 1) * ways; slot++) {
      if (this.#usedIn(slot) === 0) return slot;
      const usedMs = this.#numbers[slot * slotNumbers + offsets.number.lastUsedMs] ?? 0;
      if (usedMs >= oldestMs) continue;
      oldest = slot;
      oldestMs = usedMs;
    }
    return oldest;
  }

  #write(slot: number, { numbers, words, at, kind, used, startMs }: SavedRecord, lastUsedMs: number): void {
    const number = slot * slotNumbers;
    this.#numbers[number + offsets.number.used] = used;
    this.#numbers[number + offsets.number.startMs] = startMs;
    this.#numbers[number + offsets.number.refill] = numbers[at + offsets.number.refill] ?? 0;
    this.#numbers[number + offsets.number.lastUsedMs] = lastUsedMs;
    const word = slot * slotWords;
    // The fingerprint, the entry and the length of the window.
    for (let each = fingerprintWord; each < stateWord; each++) this.#words[word + each] = words[at * 2 + each] ?? 0;
    const holder = (words[at * 2 + stateWord] ?? 0) & stateMask;
    const isPacked = kind === sliding && this.#writeUnits(slot);
    const length = isPacked ? packedRow : holder === keyed ? unknownText : 0;
    // No request in progress remembers an epoch.
    this.#words[word + stateWord] = (holder === keyed ? keyed : shared) | (kind << kindShift) | (length << textShift);
  }

  /**
   * Returns whether the row is packed in the slot. Else it is in its place, for which the operating system has to
   * provide a page: at a start with many counters that takes longer than everything else.
   */
  #writeUnits(slot: number): boolean {
    const start = slot * slotBytes;
    if (packRow(this.#sparseRow, this.#memory.text, start + textByte, start + slotBytes)) return true;
    const { rows, rowWords } = this.#memory;
    const row = slot * rowWords;
    rows.fill(0, row, row + countedSubWindows);
    const { length, places, units } = this.#sparseRow;
    for (let index = 0; index < length; index++) rows[row + (places[index] ?? 0)] = units[index] ?? 0;
    return false;
  }
}

/** Records, and the place of one of them in `numbers`, with its settled window. */
interface SavedRecord {
  readonly numbers: Float64Array;
  readonly words: Int32Array;
  at: number;
  kind: number;
  used: number;
  startMs: number;
  next: number;
}

function kindOf(state: number): number {
  return (state >> kindShift) & stateMask;
}

/** Collects records. */
class RecordWriter {
  #bytes = new Uint8Array(pieceBytes);
  #words = new Uint32Array(this.#bytes.buffer);
  #length = 0;

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** Whether another bucket may not fit. */
  get isFull(): boolean {
    return this.#length + ways * maxRecordBytes > pieceBytes;
  }

  addSlot(bytes: Uint8Array): void {
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  addUnits(units: Uint32Array): void {
    const mask = this.#length / 4;
    this.#words[mask] = 0;
    this.#words[mask + 1] = 0;
    let next = mask + 2;
    for (let place = 0; place < units.length; place++) {
      const count = units[place] ?? 0;
      if (count === 0) continue;
      const word = mask + (place >> 5);
      this.#words[word] = (this.#words[word] ?? 0) | (1 << (place & 31));
      this.#words[next++] = count;
    }
    if (next % 2 === 1) this.#words[next++] = 0;
    this.#length = next * 4;
  }

  take(): Uint8Array {
    const piece = this.#bytes.subarray(0, this.#length);
    this.#bytes = new Uint8Array(pieceBytes);
    this.#words = new Uint32Array(this.#bytes.buffer);
    this.#length = 0;
    return piece;
  }
}
