/**
 * The file of saved counters: a block with the secret of their fingerprints, then blocks of records (saved-slots.ts),
 * each after the moment at which they were copied. It has no values of keys, but with its secret, a guessed value can
 * be verified.
 */
import { endianness } from "node:os";
import { BlockFile, type FileEnd } from "@gatewayproxy/runtime/block-file";
import { type Moment, monotonicShift } from "@gatewayproxy/runtime/boot-time";
import type { RestoreCounts, SavedSlots } from "../policy/ratelimit/saved-slots.ts";

/** Ends with the version of the layout, and the byte order of this machine. */
const fileText = `gwproxy-state-1${endianness() === "LE" ? "l" : "b"}`;

/** Bytes of `counterSeed`, which are the first block. */
const seedBytes = 32;
const bootBytes = 36;
/** Bytes of a moment: both times as f64, and the name of the boot, up to a multiple of 8. */
const momentBytes = 16 + Math.ceil(bootBytes / 8) * 8;

/** A file that could be read, at least in part. */
export interface CounterFile {
  readonly file: BlockFile;
  readonly seed: Uint8Array;
  readonly end: FileEnd;
  readonly excessBytes: number;
  /** Puts the counters into empty memory. */
  readonly restore: (slots: SavedSlots, now: Moment) => RestoreCounts;
}

/** Creates a file without counters, in place of an existing one. */
export async function createCounterFile(path: string, seed: Uint8Array): Promise<BlockFile> {
  const file = await BlockFile.create(path, fileText);
  try {
    await file.append(seed);
  } catch (error) {
    await file.close();
    throw error;
  }
  return file;
}

/** Appends records that were copied at a moment. */
export function counterBlock(moment: Moment, records: Uint8Array): Uint8Array {
  const block = Buffer.alloc(momentBytes + records.length);
  block.writeDoubleLE(moment.wallMs, 0);
  block.writeDoubleLE(moment.monotonicMs, 8);
  block.write(moment.boot, 16, bootBytes, "latin1");
  block.set(records, momentBytes);
  return block;
}

function momentOfBlock(block: Uint8Array): Moment {
  const bytes = Buffer.from(block.buffer, block.byteOffset, momentBytes);
  const [boot = ""] = bytes.toString("latin1", 16, 16 + bootBytes).split("\0", 1);
  return { wallMs: bytes.readDoubleLE(0), monotonicMs: bytes.readDoubleLE(8), boot };
}

/** Reads a file of this layout and machine. Returns undefined for any other. @throws as `node:fs` */
export async function readCounterFile(path: string): Promise<CounterFile | undefined> {
  let seed: Uint8Array | undefined;
  /** The last moment of each boot, whose wall clock was set best. */
  const moments = new Map<string, Moment>();
  const read = await BlockFile.read(path, fileText, (block) => {
    if (seed === undefined) {
      seed = Uint8Array.from(block);
      return;
    }
    const moment = momentOfBlock(block);
    moments.set(moment.boot, moment);
  });
  if (read === undefined) return undefined;
  const { file, end, excessBytes, blocks } = read;
  if (seed?.length !== seedBytes) {
    await file.close();
    return undefined;
  }
  return { file, seed, end, excessBytes, restore: (slots, now) => restore(blocks(), moments, slots, now) };
}

function restore(
  blocks: Generator<Uint8Array>,
  moments: ReadonlyMap<string, Moment>,
  slots: SavedSlots,
  now: Moment,
): RestoreCounts {
  const counts: RestoreCounts = { restored: 0, leftOut: 0 };
  // The first has the seed.
  blocks.next();
  for (const block of blocks) {
    const moment = momentOfBlock(block);
    const shiftMs = monotonicShift(moments.get(moment.boot) ?? moment, now);
    const times = { shiftMs, nowMs: now.monotonicMs, wallMs: now.wallMs };
    slots.restore(block.subarray(momentBytes), times, counts);
  }
  return counts;
}
