/**
 * Bounds the bytes that one turn of the event loop reads from servers. libuv reads a socket up to 32 times in a turn
 * while more is there, so that a hundred fast responses would take half a second of each turn, and everything else
 * waits for several turns.
 */
import type { Socket } from "node:net";

/**
 * Bytes of long reads in a turn, beyond which a socket that has more waits for a later one. Short turns also help new
 * connections, of which libuv accepts one in each.
 */
const turnBytes = 256 * 1024;
/** Sockets that are read again in each turn. */
const socketsOfTurn = 4;

const waiting = new Set<Socket>();
let readBytes = 0;
let isScheduled = false;

/**
 * Counts a long read, after which a socket may have more.
 *
 * @returns false to stop reading the socket, which is resumed in a later turn unless its receiver has paused it.
 */
export function countLongRead(socket: Socket, length: number): boolean {
  readBytes += length;
  schedule();
  if (readBytes < turnBytes) return true;
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
  readBytes = 0;
  let resumed = 0;
  for (const socket of waiting) {
    if (resumed++ === socketsOfTurn) break;
    waiting.delete(socket);
    if (!socket.destroyed && !socket.isPaused()) socket.resume();
  }
  if (waiting.size > 0) schedule();
}
