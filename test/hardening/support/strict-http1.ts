/** A strict reader of HTTP/1 messages by RFC 9112. */

export interface StrictRequest {
  readonly method: string;
  readonly target: string;
  readonly host: string;
  readonly body: string;
  /** No request may follow on the connection. */
  readonly isLast: boolean;
}

export interface StrictResponse {
  readonly status: number;
  readonly body: string;
  readonly isLast: boolean;
}

export interface Reading<Message> {
  /** The complete and valid messages, up to the first that is not. */
  readonly messages: readonly Message[];
  readonly rest: "nothing" | "incomplete" | "invalid";
}

interface Head {
  readonly startLine: string;
  readonly fields: ReadonlyMap<string, readonly string[]>;
  readonly end: number;
}

/** Ends the reading. */
class Stop extends Error {
  readonly rest: "incomplete" | "invalid";
  constructor(rest: "incomplete" | "invalid") {
    super(rest);
    this.rest = rest;
  }
}

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
/** Words may have more than one space between them (RFC 9112 §3). */
const requestLine = new RegExp(`^(${token}) +([\\x21-\\x7e]+) +HTTP/1\\.([01])$`);
const statusLine = /^HTTP\/1\.1 (\d{3})(?: [^\x00-\x08\x0a-\x1f\x7f]*)?$/;
const fieldLine = new RegExp(`^(${token}):[ \\t]*([^\\x00-\\x08\\x0a-\\x1f\\x7f]*?)[ \\t]*$`);

/** Reads requests, in latin1. */
export function readRequests(text: string): Reading<StrictRequest> {
  return readAll(text, (at) => {
    let from = at;
    // RFC 9112 §2.2: empty lines before a request line are ignored, and a lone LF may end one.
    while (text[from] === "\r" || text[from] === "\n") from++;
    if (from === text.length) return undefined;
    const head = readHead(text, from);
    const [, method = "", target = "", minor] = requestLine.exec(head.startLine) ?? fail();
    const [host = "", ...others] = head.fields.get("host") ?? [];
    // HTTP/1.0 requires no Host.
    if (others.length > 0 || (minor === "1" && !head.fields.has("host"))) fail();
    const hasCoding = head.fields.has("transfer-encoding");
    if (hasCoding && (minor === "0" || head.fields.has("content-length"))) fail();
    const { body, end } = readBody(text, head, 0);
    return { message: { method, target, host, body, isLast: minor === "0" || saysClose(head) }, end };
  });
}

/** Reads final responses to `methods`, in order; interim ones (1xx) are skipped. In latin1. */
export function readResponses(text: string, isHead: (index: number) => boolean = () => false): Reading<StrictResponse> {
  let index = 0;
  return readAll(text, (at) => {
    let head = readHead(text, at);
    let status = statusOf(head);
    while (status >= 100 && status < 200) {
      head = readHead(text, head.end);
      status = statusOf(head);
    }
    const isEmpty = isHead(index++) || status === 204 || status === 304;
    const { body, end } = isEmpty ? { body: "", end: head.end } : readBody(text, head, text.length - head.end);
    return { message: { status, body, isLast: saysClose(head) }, end };
  });
}

function statusOf({ startLine }: Head): number {
  const [, status] = statusLine.exec(startLine) ?? fail();
  return Number(status);
}

function readAll<Message extends { readonly isLast: boolean }>(
  text: string,
  readOne: (at: number) => { readonly message: Message; readonly end: number } | undefined,
): Reading<Message> {
  const messages: Message[] = [];
  let at = 0;
  try {
    while (at < text.length) {
      const read = readOne(at);
      if (read === undefined) break;
      messages.push(read.message);
      at = read.end;
      if (read.message.isLast) break;
    }
    return { messages, rest: "nothing" };
  } catch (error) {
    if (error instanceof Stop) return { messages, rest: error.rest };
    throw error;
  }
}

function readHead(text: string, at: number): Head {
  const end = text.indexOf("\r\n\r\n", at);
  if (end === -1) throw new Stop("incomplete");
  const [startLine = "", ...lines] = text.slice(at, end).split("\r\n");
  const fields = new Map<string, string[]>();
  for (const line of lines) {
    const [, name = "", value = ""] = fieldLine.exec(line) ?? fail();
    const key = name.toLowerCase();
    fields.set(key, [...(fields.get(key) ?? []), value]);
  }
  return { startLine, fields, end: end + 4 };
}

/** @param unframed length of a body without framing */
function readBody(text: string, { fields, end }: Head, unframed: number): { body: string; end: number } {
  const codings = fields.get("transfer-encoding");
  if (codings !== undefined) {
    if (codings.length !== 1 || codings[0]?.toLowerCase() !== "chunked") fail();
    return readChunks(text, end);
  }
  const lengths = fields.get("content-length");
  if (lengths === undefined) return { body: text.slice(end, end + unframed), end: end + unframed };
  if (lengths.length !== 1 || !/^\d{1,15}$/.test(lengths[0] ?? "")) fail();
  const bodyEnd = end + Number(lengths[0]);
  if (bodyEnd > text.length) throw new Stop("incomplete");
  return { body: text.slice(end, bodyEnd), end: bodyEnd };
}

function readChunks(text: string, from: number): { body: string; end: number } {
  let body = "";
  for (let at = from; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd === -1) throw new Stop("incomplete");
    const [, digits = ""] =
      /^([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\x00-\x08\x0a-\x1f\x7f]*)?$/.exec(text.slice(at, lineEnd)) ?? fail();
    const size = Number.parseInt(digits, 16);
    at = lineEnd + 2;
    if (size === 0) return { body, end: readTrailers(text, at) };
    if (at + size + 2 > text.length) throw new Stop("incomplete");
    if (!text.startsWith("\r\n", at + size)) fail();
    body += text.slice(at, at + size);
    at += size + 2;
  }
}

function readTrailers(text: string, from: number): number {
  for (let at = from; ; ) {
    const end = text.indexOf("\r\n", at);
    if (end === -1) throw new Stop("incomplete");
    if (end === at) return end + 2;
    if (!fieldLine.test(text.slice(at, end))) fail();
    at = end + 2;
  }
}

function saysClose({ fields }: Head): boolean {
  const options = (fields.get("connection") ?? []).join(",").toLowerCase().split(",");
  return options.some((option) => option.trim() === "close");
}

function fail(): never {
  throw new Stop("invalid");
}
