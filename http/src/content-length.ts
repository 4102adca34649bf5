/** Reads Content-Length fields (RFC 9110 §8.6). */

/**
 * At most fifteen digits, so that every length is an exact number. A list of equal lengths is rejected (RFC 9112 §6.3).
 */
const lengthPattern = /^\d{1,15}$/;

/** Returns the value of a Content-Length field; undefined if it is not one decimal number of at most fifteen digits. */
export function readLength(value: string): number | undefined {
  return lengthPattern.test(value) ? Number(value) : undefined;
}
