/**
 * Bounds the memory of a Node stream that is not read. Node counts bytes and not chunks, of which each takes some
 * hundred bytes more: 64 KiB of a body in chunks of one byte take some 50 MiB.
 */
import type { Readable } from "node:stream";
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";

/** Bytes that are gathered before the stream gets them as one chunk. */
const gatheredBytes = 16 * 1024;
const bounded = new WeakSet<Readable>();

/**
 * Joins the small chunks that a source pushes to `stream` while it does not flow. Has no effect when called again.
 *
 * @param rejects Is called with each chunk. If it returns true, the chunk is dropped.
 */
export function boundChunks(stream: Readable, rejects?: (chunk: Buffer) => boolean): void {
  if (bounded.has(stream)) return;
  bounded.add(stream);
  const push = stream.push.bind(stream);
  const gathered = new ChunkBuffer();
  const flush = (): boolean => {
    const bytes = gathered.take();
    return bytes === undefined || push(bytes);
  };
  // What Node's parsers call with each chunk of a body, and with null at its end.
  stream.push = (chunk: Buffer | null) => {
    if (chunk === null) {
      flush();
      return push(null);
    }
    if (rejects?.(chunk) === true) return false;
    // Who reads has it at once.
    if (stream.readableFlowing === true && gathered.length === 0 && stream.readableLength === 0) return push(chunk);
    gathered.push(chunk);
    if (stream.readableFlowing === true || gathered.length >= gatheredBytes) return flush();
    return stream.readableLength + gathered.length < stream.readableHighWaterMark;
  };
  stream.on("resume", flush);
}
