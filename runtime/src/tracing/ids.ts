/** Random ids of traces and spans. One call of the system gives the bytes of many ids. */
import { randomFillSync } from "node:crypto";

const pool = Buffer.allocUnsafeSlow(16_384);
let used = pool.length;
const noTraceId = "0".repeat(32);
const noSpanId = "0".repeat(16);

function randomHex(bytes: number): string {
  if (used + bytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const id = pool.toString("hex", used, used + bytes);
  used += bytes;
  return id;
}

/** Returns a new trace id: 32 hexadecimal digits. */
export function newTraceId(): string {
  const id = randomHex(16);
  // An id of zeros is invalid (Trace Context §3.2.2). It will not occur, and must not if it does.
  return id === noTraceId ? newTraceId() : id;
}

/** Returns a new span id: 16 hexadecimal digits. */
export function newSpanId(): string {
  const id = randomHex(8);
  return id === noSpanId ? newSpanId() : id;
}
