/** Looks at the beginning of a connection before anybody is given the whole of it. */
import type { Socket } from "node:net";

/** What the bytes so far allow to say: nothing yet, or a value and how many of the bytes were its own. */
export type FirstBytes<T> = undefined | { readonly value: T; readonly consumed: number };

/**
 * Reads until `parse` returns a result, puts back the bytes that it did not consume, and calls `done` with the socket paused. Never
 * calls it when the client goes away meanwhile.
 *
 * @param fail takes what `parse` or `done` throws.
 * @param parse called with all bytes so far; must return a result within a bounded number of them.
 */
export function readFirstBytes<T>(
  socket: Socket,
  parse: (bytes: Buffer) => FirstBytes<T>,
  done: (value: T) => void,
  fail: (error: unknown) => void,
  before?: Buffer,
): void {
  socket.once("data", (chunk: Buffer) => {
    const bytes = before === undefined ? chunk : Buffer.concat([before, chunk]);
    try {
      const result = parse(bytes);
      if (result === undefined) {
        readFirstBytes(socket, parse, done, fail, bytes);
        return;
      }
      socket.pause();
      if (result.consumed < bytes.length) socket.unshift(bytes.subarray(result.consumed));
      done(result.value);
    } catch (error) {
      fail(error);
    }
  });
  // Paused where an earlier look has just ended.
  if (socket.isPaused()) socket.resume();
}
