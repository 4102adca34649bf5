/** Removes the file of a Unix socket that no process listens on; a process that is killed leaves one behind. */
import { lstatSync, unlinkSync } from "node:fs";
import { connect } from "node:net";

/** Removes the file at `path` if it is a stale Unix socket. Any other file stays, and listening there then fails. */
export async function removeStaleSocket(path: string): Promise<void> {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket() !== true) return;
  const isStale = await new Promise<boolean>((resolve) => {
    const socket = connect(path);
    socket.on("connect", () => {
      socket.destroy();
      resolve(false);
    });
    socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code === "ECONNREFUSED"));
  });
  if (isStale) unlinkSync(path);
}
