/** How sockets of connections to servers are read: into buffers that are used again for the next read. */
import type { OnReadOpts, Socket } from "node:net";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { longRead, longTlsRead } from "./long-reads.ts";
import { countRead } from "./read-turns.ts";

/** The size of a buffer. */
const bufferBytes = longRead;

/**
 * A read of at least so many bytes leaves its buffer to the receiver. The buffer of a shorter one would be mostly
 * unused memory.
 */
const keptBytes = bufferBytes / 4;

/** The time of the receivers of shorter reads is not counted. */
const timedBytes = 4 * 1024;

/**
 * The buffer of the short reads of this thread's plain sockets. The event loop completes one read before it starts the
 * next.
 */
const plainBuffer = Buffer.allocUnsafeSlow(bufferBytes);

/**
 * Receives the bytes of a read, which it may change.
 *
 * @param isKept whether the bytes remain valid. Otherwise they are valid only during the call.
 * @returns false to stop reading, until the socket is resumed.
 */
export type ReceiveBytes = (bytes: Buffer, isKept: boolean) => boolean;

/** Returns the option `onread` of `connect`. The socket has no event `data` then, and its `end` needs no reader. */
export function readsOf(receive: ReceiveBytes, isTls: boolean): OnReadOpts {
  return isTls ? readsOfTls(receive) : readsOfPlain(receive);
}

/** TLS can decrypt more bytes while a call into it is in progress, so each TLS socket has a buffer of its own. */
function readsOfTls(receive: ReceiveBytes): OnReadOpts {
  const buffer = Buffer.allocUnsafeSlow(bufferBytes);
  return {
    buffer,
    callback(this: unknown, length) {
      const startMs = startOf(length);
      return receive(buffer.subarray(0, length), false) && readsOn(this, length, longTlsRead, startMs);
    },
  };
}

/** A long read is followed by one into a new buffer, which is left to the receiver if that read is long too. */
function readsOfPlain(receive: ReceiveBytes): OnReadOpts {
  let buffer = plainBuffer;
  return {
    // Node.js asks for the buffer of the next read after each call of the callback.
    buffer: () => buffer,
    callback(this: unknown, length, read) {
      const bytes = Buffer.from(read.buffer, read.byteOffset, length);
      const isKept = read !== plainBuffer && length >= keptBytes;
      buffer = length >= keptBytes ? Buffer.allocUnsafeSlow(bufferBytes) : plainBuffer;
      const startMs = startOf(length);
      return receive(bytes, isKept) && readsOn(this, length, longRead, startMs);
    },
  };
}

/** The time before a read is received; 0 if it is not counted. */
function startOf(length: number): number {
  return length < timedBytes ? 0 : systemClock.monotonicMs();
}

/** @param socket on which Node.js calls the callback of a read. */
function readsOn(socket: unknown, length: number, longBytes: number, startMs: number): boolean {
  if (length < timedBytes) return true;
  return countRead(socket as Socket, length < longBytes ? 0 : length, systemClock.monotonicMs() - startMs);
}
