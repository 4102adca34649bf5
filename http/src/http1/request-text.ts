/** Renders the heads of HTTP/1 requests (RFC 9112 §3, §5, §6). */
import { firstLetterOf, isNamed, letters } from "../fields.ts";
import type { ClientRequest } from "../ports.ts";
import { isTarget, isToken } from "./characters.ts";
import { fieldLine } from "./field-text.ts";

/** A head, and the framing of the body behind it. */
export interface RenderedRequest {
  /** The request line and the field lines, with the empty line. */
  readonly text: string;
  /** The length of the body; `chunked` if it is sent in chunks. */
  readonly bodyLength: number | "chunked";
}

/**
 * Renders a head. `host` is the first field (RFC 9110 §7.2). The fields of the connection are left out, and those for the body
 * and for a switch of protocols are added.
 *
 * @throws `TypeError` for a method, a path or a field that would not be read as one, or a `content-length` other than the
 *   length of the body.
 */
export function renderRequest({ method, path, fields, body, upgrade }: ClientRequest): RenderedRequest {
  if (!isToken(method)) {
    throw new TypeError(`the request has the method ${JSON.stringify(method)}, which is not a token`);
  }
  if (!isTarget(path)) {
    throw new TypeError("the request has an empty path, or one with a character that is not visible ASCII");
  }
  let host = "";
  let lines = "";
  let announced: string | undefined;
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = fields[at] ?? "";
    const value = fields[at + 1] ?? "";
    switch (firstLetterOf(name)) {
      case letters.h:
        if (!isNamed(name, "host")) break;
        if (host !== "") throw new TypeError("the request has more than one Host field");
        host = fieldLine(name, value);
        continue;
      case letters.c:
        if (isNamed(name, "connection")) continue;
        if (!isNamed(name, "content-length")) break;
        if (announced !== undefined) throw new TypeError("the request has more than one Content-Length field");
        announced = value;
        break;
      case letters.k:
        if (isNamed(name, "keep-alive")) continue;
        break;
      case letters.t:
        if (isNamed(name, "transfer-encoding")) continue;
        break;
      case letters.u:
        if (isNamed(name, "upgrade")) continue;
    }
    lines += fieldLine(name, value);
  }
  const bodyLength = lengthOf(body, announced);
  const text = `${method} ${path} HTTP/1.1\r\n${host}${lines}${framingLine(method, bodyLength, announced)}`;
  if (upgrade === undefined) return { text: `${text}\r\n`, bodyLength };
  return { text: `${text}connection: upgrade\r\n${fieldLine("upgrade", upgrade)}\r\n`, bodyLength };
}

function lengthOf(body: ClientRequest["body"], announced: string | undefined): number | "chunked" {
  if (body !== undefined && !Buffer.isBuffer(body) && announced === undefined) return "chunked";
  const length = announced === undefined ? undefined : Number(announced);
  if (length !== undefined && !/^\d{1,15}$/.test(announced ?? "")) {
    throw new TypeError(
      `the request has the Content-Length ${JSON.stringify(announced)}, which is not a number of bytes`,
    );
  }
  if (body !== undefined && !Buffer.isBuffer(body)) return length ?? 0;
  const bytes = body?.length ?? 0;
  if (length !== undefined && length !== bytes) {
    throw new TypeError(`the request has the Content-Length ${length}, and a body of ${bytes} bytes`);
  }
  return bytes;
}

/** Methods whose requests have a length even without a body (RFC 9110 §8.6). */
const methodsWithBody: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

function framingLine(method: string, bodyLength: number | "chunked", announced: string | undefined): string {
  if (bodyLength === "chunked") return "transfer-encoding: chunked\r\n";
  if (announced !== undefined || (bodyLength === 0 && !methodsWithBody.has(method))) return "";
  return `content-length: ${bodyLength}\r\n`;
}
