/**
 * Copies counters out of the shared memory and back, for a file that outlives the process. Only counters of windows longer than
 * a minute are copied: others are over before a process has started again, and so are requests in progress.
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
import { countedSubWindows, placeOf, subWindowStartMs, subWindows } from "@gatewayproxy/runtime/sliding-window";
import {
  bytesBeforeText,
  calendar,
  concurrent,
  empty,
  fixed,
  keyed,
  kindShift,
  offsets,
  shared,
  sliding,
  stateMask,
  textShift,
  unknownText,
} from "./counter-slot.ts";
import { settleFixed, settleSliding, type Window } from "./window.ts";

/** Windows up to this length are not saved. */
const maxUnsavedSeconds = 60;

const maxRecordBytes = bytesBeforeText + 8 + Math.ceil(countedSubWindows / 2) * 8;
/** Bytes of records in one piece. */
const pieceBytes = 1024 * 1024;
/** Buckets that are examined between two pauses: a fraction of a millisecond. */
const bucketsOfStep = 4_096;

const fingerprintWord: number = offsets.word.fingerprint;
const stateWord: number = offsets.word.state;
/** Of a text that is not stored. */
const textWord = offsets.byte.text / 4;
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
  readonly #scratch: Window = {
    used: 0,
    startMs: 0,
    lengthMs: 0,
    epoch: 0,
    subWindowUnits: new Uint32Array(countedSubWindows),
  };

  /**
   * @param memory Made by `createCounters` with a seed.
   * @param owner As for `CounterTable`.
   */
  constructor(memory: SharedArrayBuffer, owner: number) {
    this.#memory = new CounterMemory(memory, owner);
    if (this.#memory.marks === undefined) throw new TypeError("the memory of the counters has no marks");
    this.#marks = this.#memory.marks;
    this.#marksByFour = new Uint32Array(memory, this.#marks.byteOffset, this.#marks.length / 4);
  }

  /**
   * Copies the counters that have changed since the last call, in pieces. Those in a bucket that another thread holds are
   * left to the next call. Returns whether there are none of those.
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
    const state = this.#memory.words[word + offsets.word.state] ?? empty;
    if ((state & stateMask) === empty) return false;
    const seconds = (this.#memory.words[word + offsets.word.windowSeconds] ?? 0) >>> 0;
    return kindOf(state) !== concurrent && seconds > maxUnsavedSeconds;
  }

  #copy(slot: number, writer: RecordWriter): void {
    const start = slot * slotBytes;
    writer.addSlot(this.#memory.text.subarray(start, start + bytesBeforeText));
    const { words, rows, rowWords } = this.#memory;
    if (kindOf(words[slot * slotWords + offsets.word.state] ?? 0) !== sliding) return;
    writer.addUnits(rows.subarray(slot * rowWords, slot * rowWords + countedSubWindows));
  }

  /**
   * Puts the counters of records into the memory, in place of their earlier records. No other thread may use the memory.
   *
   * @param records As `changed` and `all` give them, aligned to 8 bytes.
   */
  restore(records: Uint8Array, times: RecordTimes, counts: RestoreCounts): void {
    const numbers = new Float64Array(records.buffer, records.byteOffset, records.byteLength / 8);
    const words = new Int32Array(records.buffer, records.byteOffset, records.byteLength / 4);
    const record: SavedRecord = { numbers, words, at: 0, kind: fixed, next: 0 };
    while (record.at < numbers.length) {
      this.#read(record, times);
      this.#restore(record, times.shiftMs, counts);
      record.at = record.next;
    }
  }

  /** Reads the settled window of a record into the scratch space, and finds the next record. */
  #read(record: SavedRecord, { shiftMs, nowMs, wallMs }: RecordTimes): void {
    const { numbers, words, at } = record;
    const window = this.#scratch;
    const windowMs = ((words[at * 2 + offsets.word.windowSeconds] ?? 0) >>> 0) * 1_000;
    record.kind = kindOf(words[at * 2 + offsets.word.state] ?? 0);
    record.next = at + recordNumbers;
    window.used = numbers[at + offsets.number.used] ?? 0;
    window.startMs = numbers[at + offsets.number.startMs] ?? 0;
    if (record.kind === sliding) {
      record.next = this.#readUnits(record, windowMs, shiftMs);
      if (window.used > 0) settleSliding(window, windowMs, nowMs);
    } else if (record.kind === calendar) {
      if (wallMs >= window.startMs + windowMs) window.used = 0;
    } else {
      window.startMs += shiftMs;
      settleFixed(window, numbers[at + offsets.number.refill] ?? 0, windowMs, nowMs);
    }
  }

  /**
   * Moves sub-windows to those of the present clock. Where they do not begin at the same times, units count for the later one, so
   * that none is restored early. Returns the place of the next record.
   */
  #readUnits({ words, at }: SavedRecord, windowMs: number, shiftMs: number): number {
    const window = this.#scratch;
    const shift = Math.ceil((shiftMs * subWindows) / windowMs);
    const first = at * 2 + recordWords;
    let next = first + 2;
    window.subWindowUnits.fill(0);
    for (let half = 0; half < 2; half++) {
      for (let bits = words[first + half] ?? 0; bits !== 0; bits &= bits - 1) {
        const place = half * 32 + 31 - Math.clz32(bits & -bits);
        window.subWindowUnits[placeOf(place + shift)] = (words[next++] ?? 0) >>> 0;
      }
    }
    const newest = Math.round((window.startMs * subWindows) / windowMs);
    window.startMs = subWindowStartMs(newest + shift, windowMs);
    return Math.ceil(next / 2);
  }

  #restore(record: SavedRecord, shiftMs: number, counts: RestoreCounts): void {
    const { numbers, words, at } = record;
    const fingerprint = at * 2 + offsets.word.fingerprint;
    const bucket = bucketOfFingerprint(words[fingerprint + 3] ?? 0, this.#memory.buckets);
    const lastUsedMs = (numbers[at + offsets.number.lastUsedMs] ?? 0) + shiftMs;
    const { used } = this.#scratch;
    let slot = this.#find(bucket, words, fingerprint);
    if (slot === -1) {
      if (used === 0) return;
      slot = this.#oldest(bucket, lastUsedMs);
      if (this.#usedIn(slot) > 0) counts.leftOut++;
      if (slot === -1) return;
    }
    if (this.#usedIn(slot) > 0) counts.restored--;
    if (used > 0) counts.restored++;
    this.#write(slot, record, lastUsedMs);
  }

  /** A missing slot is in use by another counter. */
  #usedIn(slot: number): number {
    return slot === -1 ? Infinity : (this.#memory.numbers[slot * slotNumbers + offsets.number.used] ?? 0);
  }

  /** Returns the slot of a counter, or the first free one after those in use; -1 if there is neither. */
  #find(bucket: number, record: Int32Array, fingerprint: number): number {
    const { words } = this.#memory;
    const first = bucket * ways;
    // A write without a read before it, so that the operating system provides the page at once, and not a page of zeros first.
    words[first * slotWords + textWord] = 0;
    for (let slot = first; slot < first + ways; slot++) {
      const word = slot * slotWords;
      if (words[word + offsets.word.state] === empty) return slot;
      const own = word + offsets.word.fingerprint;
      if (
        words[own] === record[fingerprint] &&
        words[own + 1] === record[fingerprint + 1] &&
        words[own + 2] === record[fingerprint + 2] &&
        words[own + 3] === record[fingerprint + 3]
      ) {
        return slot;
      }
    }
    return -1;
  }

  /** Returns the slot of the counter used longest ago; -1 if no counter was used before `lastUsedMs`. */
  #oldest(bucket: number, lastUsedMs: number): number {
    let oldest = -1;
    let oldestMs = lastUsedMs;
    for (let slot = bucket * ways; slot < (bucket + 1) * ways; slot++) {
      const number = slot * slotNumbers;
      if (this.#memory.numbers[number + offsets.number.used] === 0) return slot;
      const usedMs = this.#memory.numbers[number + offsets.number.lastUsedMs] ?? 0;
      if (usedMs >= oldestMs) continue;
      oldest = slot;
      oldestMs = usedMs;
    }
    return oldest;
  }

  #write(slot: number, { numbers, words, at, kind }: SavedRecord, lastUsedMs: number): void {
    const memory = this.#memory;
    const number = slot * slotNumbers;
    memory.numbers[number + offsets.number.used] = this.#scratch.used;
    memory.numbers[number + offsets.number.startMs] = this.#scratch.startMs;
    memory.numbers[number + offsets.number.refill] = numbers[at + offsets.number.refill] ?? 0;
    memory.numbers[number + offsets.number.lastUsedMs] = lastUsedMs;
    const word = slot * slotWords;
    const isNew = memory.words[word + stateWord] === empty;
    // The fingerprint, the entry and the length of the window.
    for (let each = fingerprintWord; each < stateWord; each++) memory.words[word + each] = words[at * 2 + each] ?? 0;
    const holder = (words[at * 2 + offsets.word.state] ?? 0) & stateMask;
    const text = holder === keyed ? unknownText << textShift : 0;
    // No request in progress remembers an epoch.
    memory.words[word + offsets.word.state] = (holder === keyed ? keyed : shared) | (kind << kindShift) | text;
    if (kind === sliding) this.#writeUnits(slot * memory.rowWords, isNew);
  }

  /** The row of a new slot is zero, and few of its sub-windows have units. */
  #writeUnits(row: number, isNew: boolean): void {
    const { rows } = this.#memory;
    const { subWindowUnits } = this.#scratch;
    for (let place = 0; place < countedSubWindows; place++) {
      const units = subWindowUnits[place] ?? 0;
      if (units > 0 || !isNew) rows[row + place] = units;
    }
  }
}

/** Records, and the place of one of them in `numbers`. */
interface SavedRecord {
  readonly numbers: Float64Array;
  readonly words: Int32Array;
  at: number;
  kind: number;
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
