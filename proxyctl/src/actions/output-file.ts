/** A file that is written at the end of a long operation, and checked for write access at its start. */
import { open, unlink } from "node:fs/promises";

/** A file that is open for writing. */
export interface OutputFile {
  /** Replaces the content of the file. */
  readonly write: (bytes: Buffer) => Promise<void>;
  /** Closes the file. Without a `write` its content stays, and a new file is removed. */
  readonly close: () => Promise<void>;
}

/** Opens the file. Rejects with the system's error if it cannot be written. */
export async function openOutputFile(path: string): Promise<OutputFile> {
  const { handle, isNew } = await openForWriting(path);
  let isWritten = false;
  return {
    async write(bytes) {
      // Devices and pipes cannot be truncated.
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
