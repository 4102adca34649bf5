/** Which reads of a socket are long, after which more probably waits in the kernel. */
import type { Socket } from "node:net";

/** The longest read of Node.js, and of our own buffers, in bytes. */
export const longRead = 64 * 1024;
/** A read from TLS is one record, of at most 16 KiB. */
export const longTlsRead = 8 * 1024;

/** @returns the length from which a read is long. */
export function longReadOf(socket: Socket): number {
  return "encrypted" in socket ? longTlsRead : longRead;
}
