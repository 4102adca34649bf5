/** A file that is written at the end of something long, and known from its beginning to be writable. */
import { open, unlink } from "node:fs/promises";

export interface OutputFile {
  /** Writes all of it, in place of what the file held. */
  readonly write: (bytes: Buffer) => Promise<void>;
  /** Without `write` before it, what the file held stays, and a file that is new is removed. */
  readonly close: () => Promise<void>;
}

/** Rejects with the system's error where the file cannot be written. */
export async function openOutputFile(path: string): Promise<OutputFile> {
  const { handle, isNew } = await openForWriting(path);
  let isWritten = false;
  return {
    async write(bytes) {
      // Devices and pipes have no length.
      if ((await handle.stat()).isFile()) await handle.truncate(0);
      await handle.writeFile(bytes);
      isWritten = true;
    },
    async close() {
      await handle.close();
      if (isNew && !isWritten) await unlink(path);
    },
  };
}

async function openForWriting(path: string) {
  try {
    return { handle: await open(path, "wx"), isNew: true };
  } catch (error) {
    const exists = error instanceof Error && "code" in error && error.code === "EEXIST";
    if (!exists) throw error;
    return { handle: await open(path, "r+"), isNew: false };
  }
}
