/**
 * What a request of a client takes of a worker's memory, without its body, from the moment that its head is parsed until its
 * stream or response is closed. The constants are the growth of the resident set, measured with some 50,000 requests that
 * were held open by their client, and rounded up.
 */

const kib = 1024;

/**
 * A request in progress, without its head: the stream or the request and response of Node, the exchange, its record, and a
 * response that waits for its client. Measured: 8.4 KiB with HTTP/2, less with HTTP/1.
 */
export const inProgressBytes = 8.5 * kib;
/** An HTTP/2 stream with a rejected request, until the client has read the response. Measured: 5.5 KiB. */
const rejectedStreamBytes = 5.5 * kib;
/** A request of HTTP/1 that waits for those before it on its connection. Measured: 2.4 KiB. */
const waitingBytes = 2.5 * kib;
/** A header field besides its characters: two strings and their places in a list. One byte of HPACK may stand for it. */
const fieldBytes = 64;

/** @param rawHeaders flat. */
function headBytes(target: string, rawHeaders: readonly string[]): number {
  let bytes = target.length + (rawHeaders.length / 2) * fieldBytes;
  for (const text of rawHeaders) bytes += text.length;
  return bytes;
}

/** @param rawHeaders flat. */
export function memoryInProgress(target: string, rawHeaders: readonly string[]): number {
  return inProgressBytes + headBytes(target, rawHeaders);
}

/** @param rawHeaders flat, with the pseudo-header fields. */
export function memoryOfRejectedStream(rawHeaders: readonly string[]): number {
  return rejectedStreamBytes + headBytes("", rawHeaders);
}

/** @param rawHeaders flat. */
export function memoryOfWaiting(target: string, rawHeaders: readonly string[]): number {
  return waitingBytes + headBytes(target, rawHeaders);
}
