/**
 * A fake LLM provider that reads requests as leniently as FastAPI applications do: it decodes paths before it routes, takes
 * `;parameters`, `\`, case and trailing slashes for nothing, detects UTF-16 and UTF-32, ignores content types, and takes
 * every empty `stream_options` for none. It has aliases of completions: `/invocations`, as vLLM has, at the end of any path,
 * and `/ask`, which no API documents. What a request would cost shows in `served`, whatever the gateway counted.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { gunzipSync } from "node:zlib";
import { startBackend } from "./backend.ts";

/** A request that the provider has taken for the work of a model. */
export interface Served {
  readonly model: unknown;
  readonly isStream: boolean;
  /** The answer tells its usage. */
  readonly tellsUsage: boolean;
  readonly authorization: string | undefined;
}

export interface LenientProvider {
  readonly port: number;
  readonly served: readonly Served[];
}

/** Tokens that each answer costs. */
export const tokensPerAnswer = 100;

const usage = { prompt_tokens: 60, completion_tokens: 40, total_tokens: tokensPerAnswer };
const text = "x".repeat(160);

export async function startLenientProvider(): Promise<LenientProvider> {
  const served: Served[] = [];
  const { port } = await startBackend((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => answer(request, response, Buffer.concat(chunks), served));
  });
  return { port, served };
}

function answer(request: IncomingMessage, response: ServerResponse, bytes: Buffer, served: Served[]): void {
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
  // The API of responses and that of messages tell it unasked.
  const tellsUsage = !isStream || Boolean(asks) || /\/(?:responses|messages)$/.test(path);
  const { authorization } = request.headers;
  served.push({ model: body["model"], isStream, tellsUsage, authorization });
  if (!isStream) {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ choices: [{ message: { content: text } }], usage }));
    return;
  }
  response.setHeader("content-type", "text/event-stream");
  response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`);
  if (tellsUsage) response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\n`);
  response.end("data: [DONE]\n\n");
}

/** Decoded twice, as by a server behind a server. */
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

/** Nothing where it is not what its label says. */
function unzipped(bytes: Buffer): Buffer {
  try {
    return gunzipSync(bytes);
  } catch {
    return Buffer.alloc(0);
  }
}

/** As Python's `json.loads` tells encodings of bytes apart. */
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
