/** Renders the heads of HTTP/1 responses (RFC 9112 §4, §5). */
import { STATUS_CODES } from "node:http";
import { dateText } from "../date-text.ts";
import { firstLetterOf, isNamed, letters } from "../fields.ts";
import { fieldLine, renderFieldLines } from "./field-text.ts";

/** A head without the fields of the connection and the empty line. */
export interface RenderedHead {
  /** The status line and the field lines. */
  readonly text: string;
  /** The value of `content-length`; undefined if there is none. */
  readonly contentLength: string | undefined;
  /** The lines of `trailer`, which are not in `text`: only a body in chunks has a trailer section (RFC 9112 §7.1). */
  readonly trailerLine: string;
}

const statusLines = new Map<number, string>();

function statusLine(status: number): string {
  let line = statusLines.get(status);
  if (line === undefined) {
    line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Unknown"}\r\n`;
    statusLines.set(status, line);
  }
  return line;
}

/**
 * Renders a head. The fields of the connection (`connection`, `keep-alive`, `transfer-encoding`) are omitted, and
 * `date` is added if it is absent (RFC 9110 §6.6.1).
 *
 * @param nowMs wall time.
 * @throws `TypeError` for an invalid name or value, such as one with a line break.
 */
export function renderHead(status: number, fields: readonly string[], nowMs: number): RenderedHead {
  let text = statusLine(status);
  let contentLength: string | undefined;
  let trailerLine = "";
  let hasDate = false;
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    switch (firstLetterOf(name)) {
      case letters.d:
        if (isNamed(name, "date")) hasDate = true;
        break;
      case letters.t:
        if (isNamed(name, "transfer-encoding")) continue;
        if (!isNamed(name, "trailer")) break;
        trailerLine += fieldLine(name, value);
        continue;
      case letters.c:
        if (isNamed(name, "connection")) continue;
        if (isNamed(name, "content-length")) contentLength = value;
        break;
      case letters.k:
        if (isNamed(name, "keep-alive")) continue;
    }
    text += fieldLine(name, value);
  }
  if (!hasDate) text += `date: ${dateText(nowMs)}\r\n`;
  return { text, contentLength, trailerLine };
}

/** Renders the head of an interim response (RFC 9110 §15.2), with its empty line. @throws as `renderHead`. */
export function renderInterimHead(status: number, fields: readonly string[]): string {
  return `${statusLine(status)}${renderFieldLines(fields)}\r\n`;
}
