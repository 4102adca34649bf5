/** Field lists of messages of any protocol (RFC 9110 §5, §7.6.1). */
import type { FieldList } from "./ports.ts";

/** Compares a field name, without regard to case. @param lowerCase in lower case. */
export function isNamed(name: string, lowerCase: string): boolean {
  return name === lowerCase || (name.length === lowerCase.length && name.toLowerCase() === lowerCase);
}

/** Returns the first value of a field in a list whose names are in lower case, as `name`. */
export function fieldOf(fields: FieldList, name: string): string | undefined {
  for (let at = 0; at < fields.length; at += 2) if (fields[at] === name) return fields[at + 1];
  return undefined;
}

/**
 * Returns the code of a name's first letter in lower case, which distinguishes most names. Names are strings of several
 * internal kinds, and V8 reads the length of such a string eight times slower than a character.
 */
export function firstLetterOf(name: string): number {
  return name.charCodeAt(0) | 0x20;
}

/** Codes of first letters. */
export const letters = { c: 0x63, d: 0x64, e: 0x65, h: 0x68, k: 0x6b, p: 0x70, s: 0x73, t: 0x74, u: 0x75 } as const;

/**
 * Returns the fields that an intermediary forwards, with names in lower case: without those of the connection and those
 * that `Connection` names (RFC 9110 §7.6.1).
 *
 * @param dropped another name, in lower case, that is not forwarded.
 */
export function endToEndFields(fields: FieldList, dropped: string): string[] {
  const forwarded: string[] = [];
  let options: string | undefined;
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = (fields[at] ?? "").toLowerCase();
    const value = fields[at + 1] ?? "";
    if (mayBeOfConnection(name) && connectionFields.has(name)) {
      if (name === "connection" && value !== "keep-alive" && value !== "close") {
        options = options === undefined ? value : `${options},${value}`;
      }
    } else if (name !== dropped) {
      forwarded.push(name, value);
    }
  }
  return options === undefined ? forwarded : withoutOptions(forwarded, options);
}

const connectionFields: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
  "te",
  // Belongs to an upgrade that HTTP/2 has retired (RFC 9113 §3.1).
  "http2-settings",
]);

/** Whether one of `connectionFields` may have this name. Most names need no lookup. */
function mayBeOfConnection(name: string): boolean {
  switch (name.charCodeAt(0)) {
    case letters.c:
    case letters.h:
    case letters.k:
    case letters.p:
    case letters.t:
    case letters.u:
      return true;
    default:
      return false;
  }
}

function withoutOptions(fields: readonly string[], options: string): string[] {
  const named = new Set(options.split(",").map((option) => option.trim().toLowerCase()));
  return fields.filter((_, index) => !named.has(fields[index - (index % 2)] ?? ""));
}
