/**
 * Computes the memory that a request of a client uses in a worker, without its body, from the parsing of its head until
 * its stream or response is closed. The constants are the growth of the resident set, measured with about 50,000
 * requests that their client held open, and rounded up.
 */

const kib = 1024;

/**
 * Memory of a request in progress, without its head: the exchange, its record, and a response that waits for its
 * client. Measured: 8.4 KiB with HTTP/2, less with HTTP/1.
 */
export const inProgressBytes = 8.5 * kib;
/** Bytes of a response that `inProgressBytes` contains. */
const shortResponseBytes = 4 * kib;
/**
 * Memory of a field without its characters: two strings and their list items. One byte of HPACK can represent a field.
 */
const fieldBytes = 64;

function headBytes(target: string, rawHeaders: readonly string[]): number {
  let bytes = target.length + (rawHeaders.length / 2) * fieldBytes;
  for (const text of rawHeaders) bytes += text.length;
  return bytes;
}

/** Returns the memory of a request in progress in bytes. @param rawHeaders names and values alternate. */
export function memoryInProgress(target: string, rawHeaders: readonly string[]): number {
  return inProgressBytes + headBytes(target, rawHeaders);
}

/**
 * Returns what a response adds to the memory of its request.
 *
 * @param waitingBytes its bytes that wait for the client.
 */
export function memoryOfResponse(waitingBytes: number): number {
  return Math.max(0, waitingBytes - shortResponseBytes);
}
