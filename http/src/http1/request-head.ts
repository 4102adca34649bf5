/** Parses the head of an HTTP/1 request (RFC 9112 §3, §5, §6). */
import { isKnownMethod } from "../methods.ts";
import { isOf, targetCharacters, tokenCharacters } from "./characters.ts";
import { type FramingFields, noFraming, parseFieldLines } from "./field-section.ts";
import { MessageError } from "./message-error.ts";

/** Bounds of a head. */
export interface HeadLimits {
  /** Maximum number of field lines. */
  readonly fields: number;
  /** Maximum length of the request target in characters. */
  readonly target: number;
}

/** The head of a request. */
export interface RequestHead {
  readonly method: string;
  /** As received. */
  readonly target: string;
  /** The minor version of HTTP/1. */
  readonly minorVersion: 0 | 1;
  /** Names, as received, and values alternate. */
  readonly fields: readonly string[];
  /** The length of the body, 0 if there is none; `chunked` if it is in chunks. */
  readonly bodyLength: number | "chunked";
  /** Whether another request may follow on the connection. */
  readonly keepsAlive: boolean;
  /** The Host field; undefined if absent, in HTTP/1.0 only. */
  readonly host: string | undefined;
  /** Whether the client waits for 100 (Continue) before it sends the body (RFC 9110 §10.1.1). */
  readonly awaitsContinue: boolean;
  /** The protocols of the Upgrade field, if the connection may be switched; undefined otherwise (RFC 9110 §7.8). */
  readonly upgrade: string | undefined;
}

/** Maximum length of a method in characters. */
const maxMethodLength = 32;

/**
 * Parses a head.
 *
 * @param text in latin1: the request line and the field lines, each with its CRLF, without the empty line at the end.
 * @throws `MessageError` for a head that servers could read in different ways.
 */
export function parseRequestHead(text: string, limits: HeadLimits): RequestHead {
  const lineEnd = text.indexOf("\r\n");
  const methodEnd = text.indexOf(" ");
  if (methodEnd <= 0 || methodEnd > maxMethodLength || !isOf(tokenCharacters, text, 0, methodEnd)) {
    throw new MessageError(400, "malformed request line");
  }
  const method = text.slice(0, methodEnd);
  const targetEnd = text.indexOf(" ", methodEnd + 1);
  if (targetEnd === -1 || targetEnd > lineEnd) throw new MessageError(400, "malformed request line");
  if (targetEnd - methodEnd - 1 > limits.target) throw new MessageError(414, "request target too long");
  if (targetEnd === methodEnd + 1 || !isOf(targetCharacters, text, methodEnd + 1, targetEnd)) {
    throw new MessageError(400, "malformed request target");
  }
  const target = text.slice(methodEnd + 1, targetEnd);
  const minorVersion = minorVersionOf(text, targetEnd + 1, lineEnd);
  if (!isKnownMethod(method)) throw new MessageError(501, "unknown method");
  checkTarget(method, target);
  const framing = noFraming();
  const fields = parseFieldLines(text, lineEnd + 2, limits, framing);
  checkFraming(framing, minorVersion);
  const { hasClose, hasKeepAlive, hasUpgrade, contentLength, isChunked } = framing;
  const isHttp11 = minorVersion === 1;
  return {
    method,
    target,
    minorVersion,
    fields,
    bodyLength: isChunked ? "chunked" : Math.max(0, contentLength),
    keepsAlive: !hasClose && (isHttp11 || hasKeepAlive),
    host: framing.host,
    awaitsContinue: isHttp11 && framing.expect !== undefined && framing.expect.toLowerCase() === "100-continue",
    upgrade: isHttp11 && hasUpgrade ? framing.upgrade : undefined,
  };
}

/** Accepts origin form, absolute form, and `*` for OPTIONS (RFC 9112 §3.2). CONNECT is not served. */
function checkTarget(method: string, target: string): void {
  if (method === "CONNECT") throw new MessageError(501, "CONNECT is not served");
  if (target.charCodeAt(0) === slash || (target === "*" && method === "OPTIONS")) return;
  if (!/^https?:\/\/[^/?#]/i.test(target)) throw new MessageError(400, "request target must be a path");
}

const slash = 0x2f;
const version = "HTTP/1.";

function minorVersionOf(text: string, start: number, end: number): 0 | 1 {
  if (end - start === version.length + 1 && text.startsWith(version, start)) {
    const minor = text.charCodeAt(end - 1);
    if (minor === 0x31) return 1;
    if (minor === 0x30) return 0;
  }
  if (/^HTTP\/\d+\.\d+$/.test(text.slice(start, end))) throw new MessageError(505, "HTTP version not supported");
  throw new MessageError(400, "malformed request line");
}

/** Rejects a message with two lengths, which another server could read as another message (RFC 9112 §6.1, §6.3). */
function checkFraming({ host, isChunked, contentLength }: FramingFields, minorVersion: 0 | 1): void {
  if (isChunked && contentLength !== -1) throw new MessageError(400, "Content-Length and Transfer-Encoding together");
  if (isChunked && minorVersion === 0) throw new MessageError(400, "Transfer-Encoding in an HTTP/1.0 request");
  if (host === undefined && minorVersion === 1) throw new MessageError(400, "no Host field");
}
