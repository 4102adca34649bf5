/** How sockets of connections to servers are read: into a buffer that is used again for the next read. */
import type { OnReadOpts } from "node:net";

/** The size of a buffer, and thus of the longest read. */
const bufferBytes = 64 * 1024;

/**
 * The buffer of all plain sockets of this thread. The event loop completes one read before it starts the next. TLS can
 * decrypt more bytes while a call into it is in progress, so each TLS socket has a buffer of its own.
 */
const plainBuffer = Buffer.allocUnsafeSlow(bufferBytes);

/**
 * Receives the bytes of a read. They are valid only during the call, and may be changed by it.
 *
 * @returns false to stop reading, until the socket is resumed.
 */
export type ReceiveBytes = (bytes: Buffer) => boolean;

/** Returns the option `onread` of `connect`. The socket has no event `data` then, and its `end` needs no reader. */
export function readsOf(receive: ReceiveBytes, isTls: boolean): OnReadOpts {
  const buffer = isTls ? Buffer.allocUnsafeSlow(bufferBytes) : plainBuffer;
  return { buffer, callback: (length) => receive(buffer.subarray(0, length)) };
}
