/** Parses the head of an HTTP/1 response (RFC 9112 §4, §5, §6). */
import { isOf, valueCharacters } from "./characters.ts";
import { noFraming, parseFieldLines, type SectionLimits } from "./field-section.ts";
import { MessageError } from "./message-error.ts";

/** The head of a response. */
export interface ResponseHead {
  /** The status code, from 100 to 999. */
  readonly status: number;
  /** The minor version of HTTP/1. */
  readonly minorVersion: 0 | 1;
  /** Names, as received, and values alternate. */
  readonly fields: readonly string[];
  /**
   * The length of the body, 0 if there is none; `chunked` if it is in chunks; `close` if it ends with the connection.
   */
  readonly bodyLength: number | "chunked" | "close";
  /** Whether another request may follow on the connection. */
  readonly keepsAlive: boolean;
  /** The protocols of the Upgrade field; undefined if absent, or if Connection does not name it. */
  readonly upgrade: string | undefined;
  /**
   * The `timeout` of the Keep-Alive field in seconds, after which the server closes an idle connection; undefined if
   * absent.
   */
  readonly keepAliveSeconds: number | undefined;
}

const statusLine = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: |$)/;

/**
 * Parses a head.
 *
 * @param text in latin1: the status line and the field lines, each with its CRLF, without the empty line at the end.
 * @param method of the request, which decides whether there is a body.
 * @throws `MessageError` for a head that clients could read in different ways.
 */
export function parseResponseHead(text: string, method: string, limits: SectionLimits): ResponseHead {
  const lineEnd = text.indexOf("\r\n");
  const match = statusLine.exec(text.slice(0, lineEnd));
  if (match === null) throw new MessageError(400, "malformed status line");
  const [start, minor, code] = match;
  if (!isOf(valueCharacters, text, start.length, lineEnd)) throw new MessageError(400, "malformed reason phrase");
  const minorVersion = minor === "1" ? 1 : 0;
  const status = Number(code);
  const framing = noFraming();
  const fields = parseFieldLines(text, lineEnd + 2, limits, framing);
  const { hasClose, hasKeepAlive, contentLength, isChunked } = framing;
  if (isChunked && contentLength !== -1) throw new MessageError(400, "Content-Length and Transfer-Encoding together");
  if (isChunked && minorVersion === 0) throw new MessageError(400, "Transfer-Encoding in an HTTP/1.0 response");
  const bodyLength = hasNoBody(method, status)
    ? 0
    : isChunked
      ? "chunked"
      : contentLength === -1
        ? "close"
        : contentLength;
  return {
    status,
    minorVersion,
    fields,
    bodyLength,
    keepsAlive: bodyLength !== "close" && !hasClose && (minorVersion === 1 || hasKeepAlive),
    upgrade: framing.hasUpgrade ? framing.upgrade : undefined,
    keepAliveSeconds: framing.keepAlive === undefined ? undefined : timeoutOf(framing.keepAlive),
  };
}

/** RFC 9112 §6.3, rules 1 and 2. */
function hasNoBody(method: string, status: number): boolean {
  return method === "HEAD" || status < 200 || status === 204 || status === 304;
}

function timeoutOf(keepAlive: string): number | undefined {
  const digits = /(?:^|[,;\s])timeout=(\d{1,9})(?:$|[,;\s])/i.exec(keepAlive)?.[1];
  return digits === undefined ? undefined : Number(digits);
}
