/** Renders the common parts of HTTP/1 requests and responses (RFC 9112 §5, §7.1). */
import { isFieldValue, isToken } from "./characters.ts";

/** Renders field lines. @throws as `fieldLine`. */
export function renderFieldLines(fields: readonly string[]): string {
  let text = "";
  for (let at = 0; at + 1 < fields.length; at += 2) text += fieldLine(fields[at] ?? "", fields[at + 1] ?? "");
  return text;
}

/**
 * Renders a field line.
 *
 * @throws `TypeError` for an invalid name or value, such as one with a line break.
 */
export function fieldLine(name: string, value: string): string {
  if (!isToken(name)) {
    throw new TypeError(`a header field has the name ${JSON.stringify(name)}, which is not a token`);
  }
  if (!isFieldValue(value)) {
    throw new TypeError(`the header field ${name} has a value with a control character, or one outside of ISO 8859-1`);
  }
  return `${name}: ${value}\r\n`;
}

/** Bodies of up to this length are copied after the head, because a write of several parts costs more. */
export const joinedBytes = 16 * 1024;

/** Returns one buffer with `before`, `bytes` and `after`. The texts are in latin1. */
export function joinText(before: string, bytes: Buffer, after: string): Buffer {
  const joined = Buffer.allocUnsafe(before.length + bytes.length + after.length);
  joined.write(before, 0, "latin1");
  bytes.copy(joined, before.length);
  if (after !== "") joined.write(after, before.length + bytes.length, "latin1");
  return joined;
}
