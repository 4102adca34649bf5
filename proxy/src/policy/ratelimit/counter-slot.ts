/**
 * The layout of a slot in the memory of the counters (see runtime's counter-memory.ts), and of its row. The key of a
 * counter that was read from a file is not known, so the place of its text may have its row instead (packed-row.ts):
 * rows that are written take memory, and few of these counters are counted soon.
 *
 *     slot   0  used          f64     32  fingerprint  4 × i32     64  text of the key, 64 bytes of UTF-8
 *            8  startMs       f64     48  entry        2 × i32
 *           16  refill        f64     56  window in s  u32
 *           24  lastUsedMs    f64     60  state, kind of windows from bit 4, length of the text from bit 8, epoch from
 *                                           bit 16, i32
 *     row    61 × u32: units by sub-window of a sliding window; units by owner for requests in progress
 */
import { slotWords } from "@gatewayproxy/runtime/counter-memory";
import type { Windows } from "./window.ts";

/** Bytes of the key's value that a slot stores. */
export const textBytes = 64;

/** Offsets in a slot, in units of the array's elements. */
export const offsets = {
  number: { used: 0, startMs: 1, refill: 2, lastUsedMs: 3 },
  word: { fingerprint: 8, entry: 12, windowSeconds: 14, state: 15 },
  byte: { text: 64 },
} as const;

/** The bits of the state that say what is in the slot. */
export const stateMask = 0xf;
/** Nothing. */
export const empty = 0;
/** The counter of an entry without key, or of its requests without a value: at most one per entry. */
export const shared = 1;
/** The counter of one value of the key of an entry. */
export const keyed = 2;

/** The first bit of the kind of windows in the state. */
export const kindShift = 4;
/** The kinds of windows, of `stateMask` bits. */
export const [fixed, sliding, calendar, concurrent] = [0, 1, 2, 3];
/** The kinds of windows in a slot, by name. */
export const kinds: Readonly<Record<Windows["kind"], number>> = {
  Fixed: fixed,
  Sliding: sliding,
  Calendar: calendar,
  Concurrent: concurrent,
};
/** The first bit of the length of the text in the state, and its bits. */
export const textShift = 8;
/** As `textShift`. */
export const textMask = 0xff;
/**
 * The length of a text that is not known, since the counter was read from a file. More than `textBytes`, as the next.
 */
export const unknownText = 0xff;
/** The same, and the place of the text has the packed row. */
export const packedRow = 0xfe;
/** The first bit of the epoch in the state, and its bits. */
export const epochShift = 16;
/** As `epochShift`. */
export const epochMask = 0xffff;

/** Bytes of a slot before the text of the key. */
export const bytesBeforeText = offsets.byte.text;

/** Returns the length of the text in a slot, or why there is none. */
export function textLengthOf(state: number): number {
  return (state >> textShift) & textMask;
}

/** The words of a fingerprint. */
export interface Fingerprint {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly d: number;
}

/** Returns which of `count` slots from `first` on has a fingerprint, also if it is empty; -1 if none has. */
export function slotOf(words: Int32Array, first: number, count: number, { a, b, c, d }: Fingerprint): number {
  for (let slot = first; slot < first + count; slot++) {
    const fingerprint = slot * slotWords + offsets.word.fingerprint;
    if (
      words[fingerprint] === a &&
      words[fingerprint + 1] === b &&
      words[fingerprint + 2] === c &&
      words[fingerprint + 3] === d
    ) {
      return slot;
    }
  }
  return -1;
}
