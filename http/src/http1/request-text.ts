/** Renders the heads of HTTP/1 requests (RFC 9112 §3, §5, §6). */
import { assertMethodAndPath, needsLength, repeatedField, requestBodyLength } from "../client-request.ts";
import { firstLetterOf, isNamed, letters } from "../fields.ts";
import type { ClientRequest } from "../ports.ts";
import { fieldLine } from "./field-text.ts";

/** A head, and the framing of the body after it. */
export interface RenderedRequest {
  /** The request line and the field lines, with the empty line. */
  readonly text: string;
  /** The length of the body; undefined if it is sent in chunks. */
  readonly bodyLength: number | undefined;
}

/**
 * Renders a head. `host` is the first field (RFC 9110 §7.2). The fields of the connection are omitted, and those for
 * the body and for a switch of protocols are added.
 *
 * @throws `TypeError` for an invalid method, path or field, or a `content-length` other than the length of the body.
 */
export function renderRequest(request: ClientRequest): RenderedRequest {
  assertMethodAndPath(request);
  const { method, path, fields, body, upgrade } = request;
  let host = "";
  let lines = "";
  /** The lines of `trailer`: only a body in chunks has a trailer section (RFC 9112 §7.1). */
  let trailerLines = "";
  let announced: string | undefined;
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    switch (firstLetterOf(name)) {
      case letters.h:
        if (!isNamed(name, "host")) break;
        if (host !== "") throw repeatedField("Host");
        host = fieldLine(name, value);
        continue;
      case letters.c:
        if (isNamed(name, "connection")) continue;
        if (!isNamed(name, "content-length")) break;
        if (announced !== undefined) throw repeatedField("Content-Length");
        announced = value;
        break;
      case letters.k:
        if (isNamed(name, "keep-alive")) continue;
        break;
      case letters.t:
        if (isNamed(name, "transfer-encoding")) continue;
        if (!isNamed(name, "trailer")) break;
        trailerLines += fieldLine(name, value);
        continue;
      case letters.u:
        if (isNamed(name, "upgrade")) continue;
    }
    lines += fieldLine(name, value);
  }
  const bodyLength = requestBodyLength(body, announced);
  const framing =
    bodyLength === undefined ? `${trailerLines}${chunkedLine}` : lengthLine(method, bodyLength, announced);
  const text = `${method} ${path} HTTP/1.1\r\n${host}${lines}${framing}`;
  if (upgrade === undefined) return { text: `${text}\r\n`, bodyLength };
  return { text: `${text}connection: upgrade\r\n${fieldLine("upgrade", upgrade)}\r\n`, bodyLength };
}

const chunkedLine = "transfer-encoding: chunked\r\n";

function lengthLine(method: string, bodyLength: number, announced: string | undefined): string {
  return needsLength(method, bodyLength, announced) ? `content-length: ${bodyLength}\r\n` : "";
}
