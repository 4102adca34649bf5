/** Looks at the beginning of a connection before anybody is given the whole of it. */
import type { Socket } from "node:net";

/** What the bytes so far allow to say: nothing yet, or a value and how many of the bytes were its own. */
export type Judgement<T> = undefined | { readonly value: T; readonly consumed: number };

/**
 * Reads until `judge` has an opinion, puts back what it did not consume, and calls `done` with the socket paused. Never
 * calls it when the client goes away meanwhile.
 *
 * @param fail takes what `judge` or `done` throws.
 * @param judge asked with all bytes so far; must decide within a bounded number of them.
 */
export function readFirstBytes<T>(
  socket: Socket,
  judge: (bytes: Buffer) => Judgement<T>,
  done: (value: T) => void,
  fail: (error: unknown) => void,
  before?: Buffer,
): void {
  socket.once("data", (chunk: Buffer) => {
    const bytes = before === undefined ? chunk : Buffer.concat([before, chunk]);
    try {
      const judgement = judge(bytes);
      if (judgement === undefined) {
        readFirstBytes(socket, judge, done, fail, bytes);
        return;
      }
      socket.pause();
      if (judgement.consumed < bytes.length) socket.unshift(bytes.subarray(judgement.consumed));
      done(judgement.value);
    } catch (error) {
      fail(error);
    }
  });
  // Paused where an earlier look has just ended.
  if (socket.isPaused()) socket.resume();
}
