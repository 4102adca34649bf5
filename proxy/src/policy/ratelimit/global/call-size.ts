/**
 * How long the values of a call may be. Clients write values, so without a bound a client could make a call that a rate limit
 * service refuses for its size: the failure mode would then decide about the client, and count as failures of the service.
 *
 * A policy has at most 16 descriptors of 16 entries, with names of 64 characters and a domain of 256. Together with
 * `maxCallValueBytes` its longest call is well below 256 KiB, which is what our service accepts by default.
 */
import type { RequestDescriptor } from "./descriptors.ts";

/** UTF-8 bytes of one value. Tokens and cookies are shorter, and many servers accept no longer line of a header. */
export const maxValueBytes = 8_192;
/** UTF-8 bytes of all values of a call together. */
export const maxCallValueBytes = 131_072;

/** The most bytes that a UTF-16 unit takes in UTF-8. */
const maxBytesPerUnit = 3;

/** Whether the values of a request are longer than a call may have. Does not read values that are short. */
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
