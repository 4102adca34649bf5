/**
 * Parses the field lines of a head or a trailer section (RFC 9112 §5), and the fields that decide about the framing of
 * the message and its connection. It accepts only lines that every server reads in the same way: no line folding, no
 * white space before the colon, no control characters.
 */
import { readLength } from "../content-length.ts";
import { firstLetterOf, isNamed, letters } from "../fields.ts";
import { isOf, tokenCharacters, valueCharacters } from "./characters.ts";
import { MessageError } from "./message-error.ts";

/** Bounds of a field section. */
export interface SectionLimits {
  /** Maximum number of field lines. */
  readonly fields: number;
}

/** The fields that decide about framing and the connection, collected while a section is parsed. */
export interface FramingFields {
  /** Value of `Content-Length`; -1 if absent. */
  contentLength: number;
  /** Whether `Transfer-Encoding: chunked` is present. */
  isChunked: boolean;
  /** Whether `Connection` has the option `close`, `keep-alive` or `upgrade`. */
  hasClose: boolean;
  hasKeepAlive: boolean;
  hasUpgrade: boolean;
  /** Value of `Keep-Alive`; undefined if absent. */
  keepAlive: string | undefined;
  /** Values of fields that occur once; undefined if absent. */
  host: string | undefined;
  upgrade: string | undefined;
  expect: string | undefined;
}

/** Returns the values for a message without any of the fields. */
export function noFraming(): FramingFields {
  return {
    contentLength: -1,
    isChunked: false,
    hasClose: false,
    hasKeepAlive: false,
    hasUpgrade: false,
    keepAlive: undefined,
    host: undefined,
    upgrade: undefined,
    expect: undefined,
  };
}

const colon = 0x3a;
const space = 0x20;
const tab = 0x09;

/**
 * Parses field lines, each with its CRLF.
 *
 * @param text in latin1. It ends with the CRLF of the last line. Text before `start` is ignored.
 * @param framing receives the fields about framing; undefined in trailers, where they are rejected.
 * @returns names, as received, and values without surrounding white space; they alternate.
 * @throws `MessageError`
 */
export function parseFieldLines(
  text: string,
  start: number,
  limits: SectionLimits,
  framing: FramingFields | undefined,
): string[] {
  const fields: string[] = [];
  let at = start;
  while (at < text.length) {
    const end = text.indexOf("\r\n", at);
    if (end === -1) throw new MessageError(400, "field line without an end");
    let nameEnd = at;
    while (nameEnd < end && tokenCharacters[text.charCodeAt(nameEnd)] === 1) nameEnd++;
    if (nameEnd === at || nameEnd === end || text.charCodeAt(nameEnd) !== colon) {
      throw new MessageError(400, "malformed field name");
    }
    let valueStart = nameEnd + 1;
    let valueEnd = end;
    while (valueStart < valueEnd && isBlank(text.charCodeAt(valueStart))) valueStart++;
    while (valueEnd > valueStart && isBlank(text.charCodeAt(valueEnd - 1))) valueEnd--;
    if (!isOf(valueCharacters, text, valueStart, valueEnd)) throw new MessageError(400, "malformed field value");
    if (fields.length >= limits.fields * 2) throw new MessageError(431, "too many header fields");
    const name = text.slice(at, nameEnd);
    const value = text.slice(valueStart, valueEnd);
    fields.push(name, value);
    readFraming(name, value, framing);
    at = end + 2;
  }
  return fields;
}

function isBlank(code: number): boolean {
  return code === space || code === tab;
}

function readFraming(name: string, value: string, framing: FramingFields | undefined): void {
  switch (firstLetterOf(name)) {
    case letters.h:
      if (isNamed(name, "host")) readHost(value, framing);
      return;
    case letters.e:
      if (framing !== undefined && isNamed(name, "expect")) framing.expect = value;
      return;
    case letters.u:
      if (framing !== undefined && isNamed(name, "upgrade")) readUpgrade(value, framing);
      return;
    case letters.c:
      if (isNamed(name, "content-length")) readContentLength(value, framing);
      else if (framing !== undefined && isNamed(name, "connection")) readConnection(value, framing);
      return;
    case letters.k:
      if (framing !== undefined && isNamed(name, "keep-alive")) framing.keepAlive = value;
      return;
    case letters.t:
      if (isNamed(name, "transfer-encoding")) readTransferEncoding(value, framing);
  }
}

function readHost(value: string, framing: FramingFields | undefined): void {
  if (framing === undefined) throw inTrailers("Host");
  if (framing.host !== undefined) throw new MessageError(400, "more than one Host field");
  framing.host = value;
}

/** Joins several lines to one list (RFC 9110 §5.3). */
function readUpgrade(value: string, framing: FramingFields): void {
  framing.upgrade = framing.upgrade === undefined ? value : `${framing.upgrade}, ${value}`;
}

/** Reads the connection options that concern this connection (RFC 9110 §7.6.1). */
function readConnection(value: string, framing: FramingFields): void {
  for (const option of value.toLowerCase().split(",")) {
    switch (option.trim()) {
      case "close":
        framing.hasClose = true;
        break;
      case "keep-alive":
        framing.hasKeepAlive = true;
        break;
      case "upgrade":
        framing.hasUpgrade = true;
    }
  }
}

function readContentLength(value: string, framing: FramingFields | undefined): void {
  if (framing === undefined) throw inTrailers("Content-Length");
  if (framing.contentLength !== -1) throw new MessageError(400, "more than one Content-Length field");
  const length = readLength(value);
  if (length === undefined) throw new MessageError(400, "Content-Length is not a number of bytes");
  framing.contentLength = length;
}

function readTransferEncoding(value: string, framing: FramingFields | undefined): void {
  if (framing === undefined) throw inTrailers("Transfer-Encoding");
  if (framing.isChunked) throw new MessageError(400, "more than one Transfer-Encoding field");
  if (!isNamed(value, "chunked")) throw new MessageError(501, "Transfer-Encoding other than chunked");
  framing.isChunked = true;
}

function inTrailers(name: string): MessageError {
  return new MessageError(400, `${name} in the trailers`);
}
