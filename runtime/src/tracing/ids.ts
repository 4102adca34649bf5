/** Random ids of traces and spans. One call of the system gives the bytes of many ids. */
import { randomFillSync } from "node:crypto";

const pool = Buffer.allocUnsafeSlow(4_096);
let used = pool.length;

function randomHex(bytes: 8 | 16): string {
  if (used + bytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const id = pool.toString("hex", used, used + bytes);
  used += bytes;
  // An id of zeros is invalid (Trace Context §3.2.2). It will not occur, and must not if it does.
  return /[1-9a-f]/.test(id) ? id : randomHex(bytes);
}

/** Returns a new trace id: 32 hexadecimal digits. */
export function newTraceId(): string {
  return randomHex(16);
}

/** Returns a new span id: 16 hexadecimal digits. */
export function newSpanId(): string {
  return randomHex(8);
}
