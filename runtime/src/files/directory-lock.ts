/**
 * Reserves a directory for one process. The lock is one of the operating system, which ends with the process however it
 * ends, and which processes of several containers and machines see. Node has no call for it, so it is taken by SQLite,
 * which locks a file that stays empty.
 */
import { join } from "node:path";

/** The SQLite result code of a file that another process has locked. */
const busy = 5;

/** The lock of a directory. */
export interface DirectoryLock {
  /** Ends the lock. */
  release(): void;
}

/**
 * Locks a directory by its file `lock`. Returns undefined if another process has locked it.
 *
 * @throws for a failure of the file
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock | undefined> {
  // Loaded for those alone who need it.
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(join(directory, "lock"), { timeout: 0 });
  try {
    database.exec("PRAGMA journal_mode = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    if (error instanceof Error && "errcode" in error && error.errcode === busy) return undefined;
    throw error;
  }
  return { release: () => database.close() };
}
