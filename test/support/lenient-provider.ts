/**
 * A fake LLM provider that reads requests as leniently as FastAPI applications do. It decodes paths before it routes,
 * ignores `;parameters`, `\`, case, trailing slashes and content types, detects UTF-16 and UTF-32, and reads every
 * empty `stream_options` as none. It has aliases of completions: `/invocations`, as in vLLM, at the end of any path,
 * and `/ask`, which no API documents. `served` shows the cost of the requests, whatever the gateway counted.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { gunzipSync } from "node:zlib";
import { startBackend } from "./backend.ts";

/** A request for which the provider ran a model. */
export interface Served {
  readonly model: unknown;
  readonly isStream: boolean;
  /** The response reports its usage. */
  readonly reportsUsage: boolean;
  readonly authorization: string | undefined;
}

export interface LenientProvider {
  readonly port: number;
  readonly served: readonly Served[];
}

/** The usage of each response. */
export const tokensPerResponse = 100;

const usage = { prompt_tokens: 60, completion_tokens: 40, total_tokens: tokensPerResponse };
const text = "x".repeat(160);

export async function startLenientProvider(): Promise<LenientProvider> {
  const served: Served[] = [];
  const { port } = await startBackend((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => respond(request, response, Buffer.concat(chunks), served));
  });
  return { port, served };
}

function respond(request: IncomingMessage, response: ServerResponse, bytes: Buffer, served: Served[]): void {
  const url = request.url ?? "";
  const path = routedPath(url);
  const body = readBody(request, bytes);
  if (
    body === undefined ||
    !/\/(?:chat\/completions|completions|invocations|responses|messages|transcriptions|embeddings|ask)$/.test(path)
  ) {
    response.writeHead(404).end("{}");
    return;
  }
  const isStream = Boolean(body["stream"]) && body["stream"] !== "false";
  const options = body["stream_options"];
  const asks = typeof options === "object" && options !== null && "include_usage" in options && options.include_usage;
  // The responses API and the messages API always report it.
  const reportsUsage = !isStream || Boolean(asks) || /\/(?:responses|messages)$/.test(path);
  const { authorization } = request.headers;
  served.push({ model: body["model"], isStream, reportsUsage, authorization });
  if (!isStream) {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ choices: [{ message: { content: text } }], usage }));
    return;
  }
  response.setHeader("content-type", "text/event-stream");
  response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`);
  if (reportsUsage) response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\n`);
  response.end("data: [DONE]\n\n");
}

/** Decoded twice, as by one server behind another. */
function routedPath(url: string): string {
  const decoded = decodeURIComponent(decodeURIComponent(url.split("?", 1)[0] ?? ""));
  return decoded
    .replaceAll("\\", "/")
    .replaceAll(/;[^/]*/g, "")
    .replace(/\/+$/, "")
    .toLowerCase();
}

function readBody(request: IncomingMessage, bytes: Buffer): Record<string, unknown> | undefined {
  const plain = request.headers["content-encoding"] === "gzip" ? unzipped(bytes) : bytes;
  const form = /name="model"\r\n\r\n(.*)\r\n/.exec(plain.toString("latin1"));
  if (form !== null) return { model: form[1] };
  try {
    return JSON.parse(decodedText(plain)) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

/** Empty if the bytes are not in the declared encoding. */
function unzipped(bytes: Buffer): Buffer {
  try {
    return gunzipSync(bytes);
  } catch {
    return Buffer.alloc(0);
  }
}

/** Detects the encoding as Python's `json.loads` does. */
function decodedText(bytes: Buffer): string {
  const text = bytes.toString();
  if (!bytes.includes(0)) return text.replace(/^\ufeff/, "");
  const [first, second, third] = bytes;
  if (first === 0 && second === 0) return utf32(Buffer.from(bytes).swap32());
  if (first === 0) return Buffer.from(bytes).swap16().toString("utf16le");
  return second === 0 && third === 0 ? utf32(bytes) : bytes.toString("utf16le").replace(/^\ufeff/, "");
}

function utf32(bytes: Buffer): string {
  let text = "";
  for (let at = 0; at + 3 < bytes.length; at += 4) text += String.fromCodePoint(bytes.readUInt32LE(at));
  return text;
}
