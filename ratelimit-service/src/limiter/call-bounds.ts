/**
 * The bounds of one call. A call is decided without interruption, so its size bounds how long all others wait. Envoy
 * sends a few descriptors with a few entries each, and values no longer than a request's headers (60 KiB by default).
 */

export interface CallBounds {
  /** Maximum number of descriptors in a call. */
  readonly maxDescriptors: number;
  /** Maximum number of entries in a descriptor. */
  readonly maxEntries: number;
  /** Maximum number of characters (UTF-16 units) of a domain, a key or a value. */
  readonly maxTextLength: number;
}

/** 256 descriptors of 32 entries each, with 65,536 characters in each text. */
export const defaultCallBounds: CallBounds = { maxDescriptors: 256, maxEntries: 32, maxTextLength: 65_536 };

/** Default maximum size of a gRPC message, compressed or not, and of a JSON body, in bytes. */
export const defaultMaxCallBytes = 262_144;

/** Thrown for a call beyond its bounds. The message is for the client. */
export class CallTooLargeError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "CallTooLargeError";
  }
}

/** @param subject the part with too many: "the call", "descriptor 3" */
export function tooManyMessage(subject: string, max: number, parts: "descriptors" | "entries"): string {
  return `${subject} has more than ${max} ${parts}`;
}

/** @param subject the part that is too long: "the domain", "the value of entry 1 of descriptor 3" */
export function tooLongMessage(subject: string, length: number, max: number): string {
  return `${subject} has ${length} characters, at most ${max} are accepted`;
}
