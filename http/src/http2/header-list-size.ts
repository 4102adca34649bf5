/** The size of header lists (RFC 9113 §6.5.2). */
import type { FieldList } from "../ports.ts";

/** What a field counts in addition to its name and value. */
const fieldBytes = 32;

/**
 * What servers accept at least. Beyond it some do not reject the request only, but end the connection: Jetty at once,
 * Netty from 10 KiB on, Tomcat from 16 KiB on.
 */
export const acceptedListBytes = 8_192;

/** Returns the size of a header list. */
export function headerListBytes(fields: FieldList): number {
  let bytes = (fields.length / 2) * fieldBytes;
  for (const text of fields) bytes += text.length;
  return bytes;
}
