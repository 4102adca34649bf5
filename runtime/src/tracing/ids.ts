/**
 * Random ids of traces and spans. One call of the system gives the bytes of many ids, and one conversion the digits of
 * some.
 */
import { randomFillSync } from "node:crypto";

const pool = Buffer.allocUnsafeSlow(16_384);
let used = pool.length;
/** Bytes whose digits are one string. An id is a part of it, and keeps it in memory. */
const convertedBytes = 512;
let digits = "";
let usedDigits = 0;
const noTraceId = "0".repeat(32);
const noSpanId = "0".repeat(16);

/** @param bytes at most `convertedBytes`. */
function randomHex(bytes: number): string {
  if (usedDigits + 2 * bytes > digits.length) convertDigits();
  const id = digits.slice(usedDigits, usedDigits + 2 * bytes);
  usedDigits += 2 * bytes;
  return id;
}

function convertDigits(): void {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  digits = pool.toString("hex", used, used + convertedBytes);
  used += convertedBytes;
  usedDigits = 0;
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
