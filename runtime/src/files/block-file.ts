/**
 * A file to which blocks of bytes are appended, and which knows after any end of its process what of it is whole.
 *
 *     16 bytes of text | blocks: length u32, check u32, bytes, check u32 (little-endian)
 *
 * Each check is a CRC-32 that continues the one before it, from the text of the file on. So a block is valid only after
 * the blocks before it: none can be missing, be of another file, or have changed. A length has a check of its own,
 * which distinguishes a block that a killed process did not finish from one that has changed.
 */
import { closeSync, fsyncSync, openSync, readSync, renameSync } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { crc32 } from "node:zlib";

/** Bytes of the text at the start of a file. */
const textBytes = 16;
const headBytes = 8;
const endBytes = 4;
/** The maximum bytes of one block. */
export const maxBlockBytes = 4 * 1024 * 1024;

/** How the valid part of a file ends. */
export type FileEnd =
  /** With the file. */
  | "whole"
  /** With a block that was not written to its end. */
  | "torn"
  /** With bytes that are no block of the file. */
  | "damaged";

/** A file that was read. */
export interface ReadBlocks {
  /** Continues after the valid part. Append only after a `whole` end. */
  readonly file: BlockFile;
  readonly end: FileEnd;
  /** Bytes after the valid part. */
  readonly excessBytes: number;
  /** Reads all valid blocks. Each is valid until the next, and aligned to 8 bytes. */
  readonly blocks: () => Generator<Uint8Array>;
}

/** A valid block. */
interface BlockPlace {
  /** Of its bytes in the file. */
  readonly offset: number;
  readonly length: number;
}

/** One open file. */
export class BlockFile {
  readonly #handle: FileHandle;
  #path: string;
  #bytes: number;
  #check: number;
  #isBroken = false;
  #lastWrite: Promise<void> = Promise.resolve();

  private constructor(handle: FileHandle, path: string, bytes: number, check: number) {
    this.#handle = handle;
    this.#path = path;
    this.#bytes = bytes;
    this.#check = check;
  }

  /**
   * Creates an empty file that only its owner can read, in place of an existing one.
   *
   * @param text Says what the file is, 16 characters of ASCII.
   * @throws as `node:fs`.
   */
  static async create(path: string, text: string): Promise<BlockFile> {
    // A new file: an existing one keeps its permissions, and a link would lead to another file.
    await rm(path, { force: true });
    const handle = await open(path, "wx+", 0o600);
    try {
      await writeFully(handle, Buffer.from(text, "latin1"), 0);
    } catch (error) {
      await handle.close();
      throw error;
    }
    return new BlockFile(handle, path, textBytes, crc32(text));
  }

  /**
   * Reads a file. Returns undefined for one that does not begin with `text`.
   *
   * @param visit Called with each valid block; the bytes are valid during the call.
   * @throws as `node:fs`.
   */
  static async read(
    path: string,
    text: string,
    visit: (block: Buffer) => void = () => undefined,
  ): Promise<ReadBlocks | undefined> {
    const handle = await open(path, "r+");
    const { size } = await handle.stat();
    const reader = new FileReader(handle.fd, size);
    if (reader.bytes(0, textBytes)?.toString("latin1") !== text) {
      await handle.close();
      return undefined;
    }
    const { end, places, check } = validBlocks(reader, size, crc32(text), visit);
    const bytes = endOf(places.at(-1));
    const file = new BlockFile(handle, path, bytes, check);
    return { file, end, excessBytes: size - bytes, blocks: () => readBlocks(reader, places) };
  }

  /** Bytes of the file. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Appends a block of at most `maxBlockBytes`, after those of earlier calls. Rejects as `node:fs`; the file cannot be
   * appended to after that.
   *
   * @param block must not change until it is written.
   */
  append(block: Uint8Array): Promise<void> {
    const written = this.#lastWrite.then(() => this.#append(block));
    // The failure of one block is reported to its caller, and fails those after it.
    this.#lastWrite = written.catch(() => undefined);
    return written;
  }

  async #append(block: Uint8Array): Promise<void> {
    this.#assertWhole();
    const frame = Buffer.alloc(headBytes + block.length + endBytes);
    const headCheck = checkOfLength(block.length, this.#check);
    const check = crc32(block, headCheck);
    frame.writeUInt32LE(block.length, 0);
    frame.writeUInt32LE(headCheck, 4);
    frame.set(block, headBytes);
    frame.writeUInt32LE(check, headBytes + block.length);
    try {
      await writeFully(this.#handle, frame, this.#bytes);
    } catch (error) {
      this.#isBroken = true;
      throw error;
    }
    this.#check = check;
    this.#bytes += frame.length;
  }

  /** Removes what is after the valid part, so that blocks can be appended. */
  async removeExcess(): Promise<void> {
    await this.#handle.truncate(this.#bytes);
  }

  /** Resolves when everything that was appended would survive the loss of power. */
  async sync(): Promise<void> {
    await this.#lastWrite;
    await this.#handle.datasync();
  }

  /** Moves the file, in place of another: at any moment `path` is one of the two. @throws after a failed write */
  moveTo(path: string): void {
    this.#assertWhole();
    renameSync(this.#path, path);
    this.#path = path;
    syncDirectory(dirname(path));
  }

  #assertWhole(): void {
    if (this.#isBroken) throw new Error(`${this.#path} cannot be used any more: a write has failed`);
  }

  /** Closes the file, after its last write. */
  async close(): Promise<void> {
    await this.#lastWrite;
    await this.#handle.close();
  }
}

function checkOfLength(length: number, check: number): number {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(length);
  return crc32(bytes, check);
}

function endOf(place: BlockPlace | undefined): number {
  return place === undefined ? textBytes : place.offset + place.length + endBytes;
}

/** Finds the valid blocks of a file. `check` is that of the last one. */
function validBlocks(
  reader: FileReader,
  size: number,
  checkOfText: number,
  visit: (block: Buffer) => void,
): { readonly end: FileEnd; readonly places: readonly BlockPlace[]; readonly check: number } {
  const places: BlockPlace[] = [];
  let check = checkOfText;
  for (let at = textBytes; at < size; at = endOf(places.at(-1))) {
    const head = reader.bytes(at, headBytes);
    if (head === undefined) return { end: "torn", places, check };
    const length = head.readUInt32LE(0);
    const headCheck = checkOfLength(length, check);
    if (head.readUInt32LE(4) !== headCheck || length > maxBlockBytes) return { end: "damaged", places, check };
    const offset = at + headBytes;
    const block = reader.bytes(offset, length + endBytes);
    if (block === undefined) return { end: "torn", places, check };
    const blockCheck = crc32(block.subarray(0, length), headCheck);
    if (block.readUInt32LE(length) !== blockCheck) return { end: "damaged", places, check };
    check = blockCheck;
    places.push({ offset, length });
    visit(block.subarray(0, length));
  }
  return { end: "whole", places, check };
}

function* readBlocks(reader: FileReader, places: readonly BlockPlace[]): Generator<Uint8Array> {
  const aligned = new Uint8Array(maxBlockBytes);
  for (const { offset, length } of places) {
    const block = reader.bytes(offset, length);
    if (block === undefined) throw new Error("a block that was read before is missing");
    aligned.set(block);
    yield aligned.subarray(0, length);
  }
}

/** Reads a file from its start to its end in large parts. */
class FileReader {
  readonly #fd: number;
  readonly #size: number;
  readonly #buffer = Buffer.alloc(2 * maxBlockBytes);
  #start = 0;
  #length = 0;

  constructor(fd: number, size: number) {
    this.#fd = fd;
    this.#size = size;
  }

  /** Returns `length` bytes, which are valid until the next call; undefined if the file ends before. */
  bytes(offset: number, length: number): Buffer | undefined {
    if (offset + length > this.#size) return undefined;
    if (offset < this.#start || offset + length > this.#start + this.#length) this.#fill(offset);
    const from = offset - this.#start;
    return from + length > this.#length ? undefined : this.#buffer.subarray(from, from + length);
  }

  #fill(offset: number): void {
    this.#start = offset;
    this.#length = 0;
    while (this.#length < this.#buffer.length) {
      const free = this.#buffer.length - this.#length;
      const count = readSync(this.#fd, this.#buffer, this.#length, free, offset + this.#length);
      if (count === 0) return;
      this.#length += count;
    }
  }
}

async function writeFully(handle: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, written, bytes.length - written, position + written);
    written += bytesWritten;
  }
}

/** Makes a change of names in a directory durable. */
function syncDirectory(path: string): void {
  const directory = openSync(path, "r");
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
