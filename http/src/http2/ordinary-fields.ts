/**
 * Header sections that all servers accept, or reject by a response or a reset of the stream. For others some servers
 * end the connection, which carries the requests of others:
 *
 * - a section of more than 8 KiB: Jetty; of more than 10 KiB Netty, 16 KiB Tomcat, and 32 KiB Kestrel
 * - more than 100 fields: Kestrel
 * - a value that is not UTF-8: Kestrel
 */
import { isUtf8 } from "node:buffer";
import type { FieldList } from "../ports.ts";

const maxBytes = 8_192;
/** The gateway, and proxies behind it, may add some. */
const maxFields = 64;
/** What a field counts in addition to its name and value (RFC 9113 §6.5.2). */
const fieldBytes = 32;
const ascii = /^[\t -~]*$/;
/** Any bytes other than control characters. */
const latin1 = /^[\t -~\x80-\xff]*$/;

/** @param path as it is sent with the fields; empty for trailers. */
export function areOrdinary(fields: FieldList, path = ""): boolean {
  const count = fields.length / 2;
  if (count > maxFields) return false;
  let bytes = path.length + count * fieldBytes;
  for (const text of fields) {
    bytes += text.length;
    if (bytes > maxBytes) return false;
    if (!ascii.test(text) && !isUtf8Text(text)) return false;
  }
  return bytes <= maxBytes;
}

/** @param text as latin1. */
function isUtf8Text(text: string): boolean {
  return latin1.test(text) && isUtf8(Buffer.from(text, "latin1"));
}
