/**
 * Where a request body in chunks ends in the bytes of its connection. Nothing announces it, Node does not tell it, and what
 * follows may be the beginning of another head, which is to be counted.
 */
import type { IncomingMessage } from "node:http";
import { boundChunks } from "./bound-chunks.ts";
import type { HeadCounts } from "./connection.ts";
import { isTooLarge } from "./request-head.ts";

/** `0`, CRLF, and the CRLF behind the trailers (RFC 9112 §7.1). */
const lastChunkBytes = 5;

/** The error of a request whose trailers are rejected. Its connection is still open. */
export const trailersRejected = new Error("the trailers exceed the limits of a head");

/**
 * Keeps `heads.completeBytes` at the end of what has come of the body. It is as exact as chunks have no extensions; those
 * of the last read are taken for a part of what follows.
 *
 * A connection that sends too many small chunks is closed.
 *
 * Trailers are dropped when they have come, because they are not forwarded. Those that exceed the limits of a head are
 * rejected.
 */
export function followChunks(request: IncomingMessage, heads: HeadCounts, isFlood: (chunk: Buffer) => boolean): void {
  // The bytes that the parser collects must be counted here first.
  boundChunks(request);
  const { socket } = request;
  const push = request.push.bind(request);
  let readBytes = socket.bytesRead;
  const rejectTrailers = (): boolean => {
    if (request.listenerCount("error") === 0) return false;
    request.emit("error", trailersRejected);
    return true;
  };
  heads.chunked = { rejectTrailers };
  // What Node's parser calls with each chunk, and with null at the end.
  request.push = (chunk: Buffer | null) => {
    const { bytesRead } = socket;
    // All that was read before is of this request, for it goes on.
    if (bytesRead !== readBytes) heads.completeBytes = readBytes;
    readBytes = bytesRead;
    const length = chunk === null ? lastChunkBytes + lengthOf(request.rawTrailers) : chunkBytes(chunk.length);
    heads.completeBytes = Math.min(heads.completeBytes + length, bytesRead);
    if (chunk !== null) {
      if (!isFlood(chunk)) return push(chunk);
      // After the parser has returned: what closes a connection within a read would break it.
      process.nextTick(() => socket.destroy());
      return false;
    }
    heads.chunked = undefined;
    const areTooLarge = isTooLarge(request.rawTrailers);
    request.rawTrailers.length = 0;
    if (!areTooLarge) return push(null);
    // After the parser has returned: what closes a connection within a read would break it.
    process.nextTick(() => rejectTrailers() || socket.destroy());
    return true;
  };
}

/** Of a chunk with its size, in hexadecimal digits, and two CRLF. */
function chunkBytes(length: number): number {
  return length + Math.ceil((32 - Math.clz32(length)) / 4) + 4;
}

function lengthOf(trailers: readonly string[]): number {
  return trailers.reduce((total, text) => total + text.length + 2, 0);
}
