/**
 * Bounds on the values of a call. Clients choose values. Without a bound, a client could cause a call that the rate
 * limit service rejects for its size: the failure mode would then decide for that client, and the circuit breaker would
 * count a failure.
 *
 * A policy has at most 16 descriptors of 16 entries, with names of 64 characters and a domain of 256. Together with
 * `maxCallValueBytes` its longest call is well below 256 KiB, the default maximum of the `ratelimit-service`.
 */
import type { RequestDescriptor } from "./descriptors.ts";

/** Maximum UTF-8 bytes of one value. Tokens and cookies are shorter, and many servers accept no longer header line. */
export const maxValueBytes = 8_192;
/** Maximum UTF-8 bytes of all values of a call together. */
export const maxCallValueBytes = 131_072;

/** The most UTF-8 bytes of one UTF-16 unit. */
const maxBytesPerUnit = 3;

/** Returns whether the values of a request exceed the bounds. Does not read short values. */
export function areValuesTooLong(descriptors: readonly RequestDescriptor[]): boolean {
  let bytesAtMost = 0;
  for (const { entries } of descriptors) {
    for (const { value } of entries) {
      if (value.length * maxBytesPerUnit > maxValueBytes && isLongerThan(value, maxValueBytes)) return true;
      bytesAtMost += value.length * maxBytesPerUnit;
    }
  }
  return bytesAtMost > maxCallValueBytes && bytesOfValues(descriptors) > maxCallValueBytes;
}

function isLongerThan(value: string, bytes: number): boolean {
  return value.length > bytes || Buffer.byteLength(value) > bytes;
}

function bytesOfValues(descriptors: readonly RequestDescriptor[]): number {
  let bytes = 0;
  for (const { entries } of descriptors) for (const { value } of entries) bytes += Buffer.byteLength(value);
  return bytes;
}
