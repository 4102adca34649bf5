/**
 * Releases the memory of long buffers after their last use. A body of 100 MB passes through buffers of 64 KiB. Without
 * a release they stay allocated until V8 collects the whole heap because of them.
 */
import type { Socket } from "node:net";

/** Shorter buffers cost less than their release. */
const minReleasedBytes = 16 * 1024;

/**
 * Writes bytes to a socket, and releases their memory when they have been passed to the kernel. Their length is 0 after
 * that.
 *
 * @param bytes a buffer whose memory has no other user.
 * @returns as `Socket.write`.
 */
export function writeExclusive(socket: Socket, bytes: Buffer): boolean {
  if (bytes.length < minReleasedBytes) return socket.write(bytes);
  return socket.write(bytes, () => releaseMemory(bytes));
}

/** Releases the memory of a buffer that is not used any more. Has no effect on a small part of a larger buffer. */
export function releaseMemory(bytes: Buffer): void {
  const { buffer } = bytes;
  // A buffer from the pool of Node.js is less than half of it.
  if (bytes.length < minReleasedBytes || bytes.length * 2 <= buffer.byteLength) return;
  // The new buffer is empty, and the old one has lost its memory.
  if (buffer instanceof ArrayBuffer) buffer.transfer(0);
}
