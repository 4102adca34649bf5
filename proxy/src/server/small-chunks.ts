/**
 * Bounds the small chunks of request bodies. Node calls JavaScript for each DATA frame and each chunk of a chunked body, and
 * reads up to 2 MiB of a connection in one turn of the event loop: 200,000 chunks of one byte.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { FloodLimit } from "@gatewayproxy/http/http2/flood-limit";
import type { Connection } from "./connection.ts";

/** In bytes. A chunk of this length or more pays for its work with its bytes. */
const smallLength = 64;
/** Small chunks of a connection at once, and then per second. */
const burst = 10_000;
const perSecond = 5_000;

const limits = new WeakMap<Connection, FloodLimit>();

/** Counts a chunk of a request body. Returns whether its connection has sent too many small ones and must be closed. */
export function isChunkFlood(connection: Connection, chunk: Buffer, clock: Clock): boolean {
  if (chunk.length >= smallLength) return false;
  let limit = limits.get(connection);
  if (limit === undefined) {
    limit = new FloodLimit("small chunks", clock, burst, perSecond);
    limits.set(connection, limit);
  }
  return !limit.tryCount();
}
