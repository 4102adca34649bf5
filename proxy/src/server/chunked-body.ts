/**
 * Where a request body in chunks ends in the bytes of its connection. Nothing announces it, Node does not tell it, and what
 * follows may be the beginning of another head, which is to be counted.
 */
import type { IncomingMessage } from "node:http";
import { boundChunks } from "./bound-chunks.ts";
import type { HeadCounts } from "./connection.ts";

/** `0`, CRLF, and the CRLF behind the trailers (RFC 9112 §7.1). */
const lastChunkBytes = 5;

/**
 * Keeps `heads.completeBytes` at the end of what has come of the body. It is as exact as chunks have no extensions; those
 * of the last read are taken for a part of what follows.
 */
export function followChunks(request: IncomingMessage, heads: HeadCounts): void {
  // What is gathered there must be seen here before.
  boundChunks(request);
  const { socket } = request;
  const push = request.push.bind(request);
  let readBytes = socket.bytesRead;
  heads.isInChunks = true;
  // What Node's parser calls with each chunk, and with null at the end.
  request.push = (chunk: Buffer | null) => {
    const { bytesRead } = socket;
    // All that was read before is of this request, for it goes on.
    if (bytesRead !== readBytes) heads.completeBytes = readBytes;
    readBytes = bytesRead;
    const length = chunk === null ? lastChunkBytes + lengthOf(request.rawTrailers) : chunkBytes(chunk.length);
    heads.completeBytes = Math.min(heads.completeBytes + length, bytesRead);
    if (chunk === null) heads.isInChunks = false;
    return push(chunk);
  };
}

/** Of a chunk with its size, in hexadecimal digits, and two CRLF. */
function chunkBytes(length: number): number {
  return length + Math.ceil((32 - Math.clz32(length)) / 4) + 4;
}

function lengthOf(trailers: readonly string[]): number {
  return trailers.reduce((total, text) => total + text.length + 2, 0);
}
