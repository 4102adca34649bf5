/** The file of a unix socket that nobody listens on any more: a process that was killed leaves it behind. */
import { lstatSync, unlinkSync } from "node:fs";
import { connect } from "node:net";

/** Removes the file at `path` if it is such a socket; anything else stays, and is an error when somebody listens. */
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
