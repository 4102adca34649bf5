/**
 * Bounds the bytes that one turn of the event loop reads from servers, and the time that they take. libuv reads a
 * socket up to 32 times in a turn while more is there, so that a hundred fast responses would take half a second of
 * each turn, and everything else waits for several turns.
 */
import type { Socket } from "node:net";

/**
 * Bytes of long reads in a turn, beyond which a socket that has more waits for a later one. Short turns also help new
 * connections, of which libuv accepts a few in each.
 */
const turnBytes = 256 * 1024;
/** As `turnBytes`, of the time of reads: one of the response of a model takes milliseconds, for its usage. */
const turnMs = 4;
/** The most sockets that are read again in each turn. */
const socketsOfTurn = 4;

const waiting = new Set<Socket>();
let readBytes = 0;
let readMs = 0;
let reads = 0;
let isScheduled = false;

/**
 * Counts a read, after which a socket may have more.
 *
 * @param bytes of a long read, after which a socket probably has more; otherwise 0.
 * @param ms the time of its receiver.
 * @returns false to stop reading the socket, which is resumed in a later turn unless its receiver has paused it.
 */
export function countRead(socket: Socket, bytes: number, ms: number): boolean {
  readBytes += bytes;
  readMs += ms;
  reads++;
  schedule();
  if (readBytes < turnBytes && readMs < turnMs) return true;
  waiting.add(socket);
  return false;
}

function schedule(): void {
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(resumeNext);
}

function resumeNext(): void {
  isScheduled = false;
  // As many as the time permits, if their reads take as long as those of this turn.
  const fitting = reads === 0 ? socketsOfTurn : Math.floor((turnMs * reads) / readMs);
  let left = Math.min(Math.max(1, fitting), socketsOfTurn);
  readBytes = 0;
  readMs = 0;
  reads = 0;
  for (const socket of waiting) {
    if (left-- === 0) break;
    waiting.delete(socket);
    if (!socket.destroyed && !socket.isPaused()) socket.resume();
  }
  if (waiting.size > 0) schedule();
}
