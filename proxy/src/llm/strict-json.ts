/**
 * Decides whether a request body is one JSON object that every JSON reader reads alike, before the body is edited.
 *
 * Lenient readers accept more than RFC 8259: comments, trailing commas, single quotes, other encodings. A body that only
 * some of them accept could mean one thing to the gateway and another to the provider. So only the grammar of RFC 8259 is
 * accepted, in UTF-8, with or without a byte order mark. Duplicate names are within the grammar; the editor handles them.
 *
 * One pass without allocation that grows with the body: a parse would build the whole value first.
 */
import { isUtf8 } from "node:buffer";
import { isSpace } from "./json-members.ts";

/** Deepest nesting that is accepted. Readers limit it themselves: Python at about 1,000, .NET at 64. */
export const maxJsonDepth = 512;

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const backslash = 0x5c;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const lowerU = 0x75;

/** Index of a byte that cannot be read. */
const invalid = -1;

/** Whether `text` is one JSON object in UTF-8 and nothing else but white space. Never throws. */
export function isJsonObject(text: Buffer): boolean {
  const start = skipSpace(text, startsWithByteOrderMark(text) ? 3 : 0);
  if (text[start] !== openBrace || !isUtf8(text)) return false;
  const end = skipValue(text, start);
  return end !== invalid && skipSpace(text, end) === text.length;
}

function startsWithByteOrderMark(text: Buffer): boolean {
  return text[0] === 0xef && text[1] === 0xbb && text[2] === 0xbf;
}

/** @returns the index behind the value that begins at `from`, or `invalid`. */
function skipValue(text: Buffer, from: number): number {
  /** The closing bracket of each open array and object. */
  const closers = new Uint8Array(maxJsonDepth);
  let depth = 0;
  let at = from;
  for (;;) {
    const byte = text[at];
    if (byte === openBrace || byte === openBracket) {
      if (depth === maxJsonDepth) return invalid;
      const closer = byte === openBrace ? closeBrace : closeBracket;
      closers[depth++] = closer;
      at = skipSpace(text, at + 1);
      if (text[at] !== closer) {
        if (closer === closeBrace) at = skipName(text, at);
        if (at === invalid) return invalid;
        continue;
      }
      depth--;
      at++;
    } else {
      at = byte === quote ? skipString(text, at) : skipScalar(text, at);
      if (at === invalid) return invalid;
    }
    // A value has ended: what follows closes its parents, or begins the next value.
    for (;;) {
      if (depth === 0) return at;
      at = skipSpace(text, at);
      const closer = closers[depth - 1];
      if (text[at] === comma) {
        at = skipSpace(text, at + 1);
        if (closer === closeBrace) at = skipName(text, at);
        if (at === invalid) return invalid;
        break;
      }
      if (text[at] !== closer) return invalid;
      depth--;
      at++;
    }
  }
}

/** @returns the index of the value behind the name and the colon. */
function skipName(text: Buffer, from: number): number {
  if (text[from] !== quote) return invalid;
  const end = skipString(text, from);
  if (end === invalid) return invalid;
  const at = skipSpace(text, end);
  return text[at] === colon ? skipSpace(text, at + 1) : invalid;
}

/** @param from index of the opening quote. */
function skipString(text: Buffer, from: number): number {
  let at = from + 1;
  for (;;) {
    const byte = text[at];
    if (byte === undefined || byte < 0x20) return invalid;
    if (byte === quote) return at + 1;
    if (byte !== backslash) at++;
    else if (text[at + 1] === lowerU) {
      if (!isHexDigits(text, at + 2)) return invalid;
      at += 6;
    } else if (escapes.has(text[at + 1] ?? 0)) at += 2;
    else return invalid;
  }
}

/** Behind a backslash, but for `u`. */
const escapes: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));

function isHexDigits(text: Buffer, from: number): boolean {
  return /^[\da-f]{4}$/i.test(text.toString("latin1", from, from + 4));
}

/** Longest number that is accepted, far beyond what a double can tell apart. */
const maxScalarLength = 1024;
const scalar = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)$/;

function skipScalar(text: Buffer, from: number): number {
  let at = from;
  while (at - from < maxScalarLength && isScalarByte(text[at])) at++;
  return scalar.test(text.toString("latin1", from, at)) ? at : invalid;
}

/** Of a number or a literal: a digit, a letter, `+`, `-` or `.`. */
function isScalarByte(byte = 0): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    byte === 0x2d ||
    byte === 0x2b ||
    byte === 0x2e ||
    byte === 0x45
  );
}

function skipSpace(text: Buffer, from: number): number {
  let at = from;
  while (at < text.length && isSpace(text[at] ?? 0)) at++;
  return at;
}
