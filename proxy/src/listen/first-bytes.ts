/** Reads the beginning of a connection to determine its protocol. */
import type { Socket } from "node:net";

/**
 * The result of parsing the bytes so far: undefined if more are needed, else a value and the bytes that it consumed.
 */
export type FirstBytes<T> = undefined | { readonly value: T; readonly consumed: number };

/**
 * Reads until `parse` returns a result, puts back the bytes that it did not consume, pauses the socket and calls
 * `done`. If the client disconnects first, `done` is not called.
 *
 * @param parse called with all bytes so far; must return a result within a bounded number of them.
 * @param fail receives errors that `parse` or `done` throws.
 * @param before bytes that were read already.
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
  // An earlier call has left the socket paused.
  if (socket.isPaused()) socket.resume();
}
