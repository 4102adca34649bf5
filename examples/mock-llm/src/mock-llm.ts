/**
 * A server with the APIs of LLM providers, without a model: OpenAI chat completions, responses, embeddings and models,
 * and Anthropic messages. Headers of the request set the usage and the failures (`reply-options.ts`). For
 * demonstrations and tests; it checks no credentials.
 */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import { messages } from "./anthropic-messages.ts";
import type { Dialect } from "./dialect.ts";
import { asObject, type JsonObject } from "./json.ts";
import { chatCompletions } from "./openai-chat.ts";
import { embeddings } from "./openai-embeddings.ts";
import { responses } from "./openai-responses.ts";
import { type Reply, send } from "./reply.ts";
import { readReplyOptions, InvalidReplyOption, type ReplyOptions } from "./reply-options.ts";

export interface MockLlmOptions {
  /** 0 selects a free port. */
  readonly port: number;
  readonly host: string;
}

/** A request that the mock has received. */
export interface SeenRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** As received, decoded as UTF-8. */
  readonly body: string;
}

export interface MockLlm {
  readonly port: number;
  /** `http://HOST:PORT` */
  readonly url: string;
  /** The last thousand requests, the oldest first. */
  readonly requests: readonly SeenRequest[];
  /** Stops listening and closes all connections. */
  close(): Promise<void>;
}

const maxSeenRequests = 1_000;

/** Starts to listen. @throws the error of `listen`, for example EADDRINUSE */
export async function startMockLlm({ port, host }: MockLlmOptions): Promise<MockLlm> {
  const requests: SeenRequest[] = [];
  let count = 0;
  const server = createServer((request, response) => {
    void respond(request, response, requests, ++count);
  });
  server.listen(port, host);
  await once(server, "listening");
  const address = server.address();
  // A TCP server has an address object while it listens.
  const actualPort = typeof address === "object" && address !== null ? address.port : port;
  return {
    port: actualPort,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${actualPort}`,
    requests,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** By the end of the path, so that the mock works behind any prefix. */
const dialects: readonly (readonly [path: string, dialect: Dialect])[] = [
  ["/chat/completions", chatCompletions],
  ["/responses", responses],
  ["/embeddings", embeddings],
  ["/messages", messages],
];

async function respond(request: IncomingMessage, response: ServerResponse, seen: SeenRequest[], id: number) {
  // Clients may disconnect at any time.
  response.on("error", () => response.destroy());
  const body = await readBody(request);
  if (body === undefined) return;
  const { method = "", url: path = "" } = request;
  seen.push({ method, path, headers: request.headers, body });
  if (seen.length > maxSeenRequests) seen.shift();
  try {
    const options = readReplyOptions(request.headers);
    await send(request, response, replyTo(method, path, body, options, id), options);
  } catch (error) {
    if (!(error instanceof InvalidReplyOption)) throw error;
    await send(request, response, failure(path, 400, error.message), defaultOptions);
  }
}

const defaultOptions = readReplyOptions({});

/** @returns undefined when the client disconnected */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer);
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks).toString();
}

function replyTo(method: string, pathAndQuery: string, body: string, options: ReplyOptions, id: number): Reply {
  const path = pathAndQuery.split("?")[0] ?? "";
  if (options.status !== undefined) return failure(path, options.status, "the request asked for this error");
  if (path.endsWith("/models") && method === "GET") return { kind: "json", status: 200, body: models };
  const dialect = dialects.find(([end]) => path.endsWith(end))?.[1];
  if (dialect === undefined) {
    const known = [...dialects.map(([end]) => `POST /v1${end}`), "GET /v1/models"].join(", ");
    return failure(path, 404, `no ${path} here, try one of ${known}`);
  }
  if (method !== "POST") return failure(path, 405, `${path} takes POST, not ${method}`);
  const parsed = parseObject(body);
  if (parsed === undefined) return failure(path, 400, "the body is not a JSON object");
  return dialect(parsed, options, id);
}

const models = {
  object: "list",
  data: ["mock-1", "mock-embedding-1"].map((id) => ({ id, object: "model", created: 1_760_000_000, owned_by: "mock" })),
};

function parseObject(body: string): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === "object" && value !== null ? asObject(value) : undefined;
  } catch {
    return undefined;
  }
}

/** Returns an error in the form of the dialect that the path belongs to. */
function failure(path: string, status: number, message: string): Reply {
  const type = status < 500 ? "invalid_request_error" : "server_error";
  const error = { type, message, code: null, param: null };
  const isAnthropic = path.split("?")[0]?.endsWith("/messages") === true;
  return { kind: "json", status, body: isAnthropic ? { type: "error", error: { type, message } } : { error } };
}
