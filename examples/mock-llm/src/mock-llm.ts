/**
 * A server with the APIs of LLM providers, without a model: OpenAI chat completions, responses, embeddings and models,
 * Anthropic messages, Gemini, Amazon Bedrock, reranking of Cohere and Jina, and OpenAI's realtime API. Azure OpenAI has
 * the paths of OpenAI with a prefix. Headers of the request, or a behavior for all of them, set the usage and the
 * failures (`reply-options.ts`). For demonstrations and tests; it checks no credentials.
 */
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { messages } from "./anthropic-messages.ts";
import { converse, converseStream, invoke, invokeStream } from "./bedrock.ts";
import type { Dialect } from "./dialect.ts";
import { generateContent, streamGenerateContent } from "./gemini.ts";
import { asObject, type JsonObject } from "./json.ts";
import { chatCompletions } from "./openai-chat.ts";
import { embeddings } from "./openai-embeddings.ts";
import { serveRealtime } from "./openai-realtime.ts";
import { responses } from "./openai-responses.ts";
import { rerank } from "./rerank.ts";
import { type Reply, send } from "./reply.ts";
import {
  type Behavior,
  InvalidReplyOption,
  readBehavior,
  readReplyOptions,
  type ReplyOptions,
} from "./reply-options.ts";

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
  /** The `x-mock-*` headers of requests without their own, as `PUT /mock/behavior` sets them. */
  behave(members: Readonly<Record<string, unknown>>): void;
  /** Stops listening and closes all connections. */
  close(): Promise<void>;
}

const maxSeenRequests = 1_000;

/** Starts to listen. @throws the error of `listen`, for example EADDRINUSE */
export async function startMockLlm({ port, host }: MockLlmOptions): Promise<MockLlm> {
  const requests: SeenRequest[] = [];
  const state: State = { requests, behavior: {}, count: 0 };
  const server = createServer((request, response) => {
    void respond(request, response, state);
  });
  // Switched connections are no longer the server's.
  const sockets = new Set<Duplex>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.on("upgrade", (request, socket, head) => upgrade(request, socket, head, requests));
  server.listen(port, host);
  await once(server, "listening");
  const address = server.address();
  // A TCP server has an address object while it listens.
  const actualPort = typeof address === "object" && address !== null ? address.port : port;
  return {
    port: actualPort,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${actualPort}`,
    requests,
    behave(members) {
      state.behavior = readBehavior(members);
    },
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      for (const socket of sockets) socket.destroy();
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
  ["/rerank", rerank],
  [":generateContent", generateContent],
  [":streamGenerateContent", streamGenerateContent],
  ["/converse", converse],
  ["/converse-stream", converseStream],
  ["/invoke", invoke],
  ["/invoke-with-response-stream", invokeStream],
];

/** A documented path of each dialect, for messages. */
const documentedPaths = [
  ...["/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/messages", "/v1/rerank"],
  ...["generateContent", "streamGenerateContent"].map((method) => `/v1beta/models/NAME:${method}`),
  ...["converse", "converse-stream", "invoke", "invoke-with-response-stream"].map((name) => `/model/NAME/${name}`),
];

/** The state of one server. */
interface State {
  readonly requests: SeenRequest[];
  behavior: Behavior;
  count: number;
}

/** `PUT` of a behavior, in JSON, applies to all later requests; `{}` ends it. */
const behaviorPath = "/mock/behavior";

async function respond(request: IncomingMessage, response: ServerResponse, state: State) {
  // Clients may disconnect at any time.
  response.on("error", () => response.destroy());
  const body = await readBody(request);
  if (body === undefined) return;
  const { method = "", url: path = "" } = request;
  try {
    if (path === behaviorPath && method === "PUT") {
      state.behavior = readBehavior(parseObject(body) ?? {});
      await send(request, response, { kind: "json", status: 200, body: state.behavior }, defaultOptions);
      return;
    }
    state.requests.push({ method, path, headers: request.headers, body });
    if (state.requests.length > maxSeenRequests) state.requests.shift();
    const options = readReplyOptions({ ...state.behavior, ...request.headers });
    await send(request, response, replyTo(method, path, body, options, ++state.count), options);
  } catch (error) {
    if (!(error instanceof InvalidReplyOption)) throw error;
    await send(request, response, failure(path, 400, error.message), defaultOptions);
  }
}

const defaultOptions = readReplyOptions({});

/**
 * Switches to WebSocket at the path of realtime sessions. An invalid header, or an error that one requests, denies it.
 */
function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, seen: SeenRequest[]): void {
  const { method = "", url: path = "", headers } = request;
  seen.push({ method, path, headers, body: "" });
  try {
    const { status } = readReplyOptions(headers);
    const isRealtime = path.split("?")[0]?.endsWith("/realtime") === true;
    if (isRealtime && status === undefined) serveRealtime(request, socket, head);
    else deny(socket, status ?? 404);
  } catch (error) {
    if (!(error instanceof InvalidReplyOption)) throw error;
    deny(socket, 400);
  }
}

function deny(socket: Duplex, status: number): void {
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Error"}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
}

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
  const [path = "", query] = pathAndQuery.split("?");
  if (options.status !== undefined) {
    return failure(path, options.status, "the request asked for this error", options.retryAfter);
  }
  if (path.endsWith("/models") && method === "GET") return { kind: "json", status: 200, body: models };
  const dialect = dialects.find(([end]) => path.endsWith(end))?.[1];
  if (dialect === undefined) {
    const known = [...documentedPaths.map((each) => `POST ${each}`), "GET /v1/models"].join(", ");
    return failure(path, 404, `no ${path} here, try one of ${known}`);
  }
  if (method !== "POST") return failure(path, 405, `${path} takes POST, not ${method}`);
  const parsed = parseObject(body);
  if (parsed === undefined) return failure(path, 400, "the body is not a JSON object");
  return dialect(parsed, options, id, { pathname: path, query: new URLSearchParams(query) });
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

/** Returns an error in the form of the dialect that the path belongs to. A 429 says when to come back. */
function failure(
  pathAndQuery: string,
  status: number,
  message: string,
  retryAfter = status === 429 ? 1 : undefined,
): Reply {
  const path = pathAndQuery.split("?")[0] ?? "";
  const waits = retryAfter === undefined ? {} : waitFields(path, retryAfter);
  const isBedrock = /\/model\/.+\/[\w-]+$/.test(path);
  const errorType =
    status === 429 ? "ThrottlingException" : status < 500 ? "ValidationException" : "InternalServerException";
  const headers = { ...waits, ...(isBedrock && { "x-amzn-errortype": errorType }) };
  return { kind: "json", status, body: isBedrock ? { message } : errorBody(path, status, message), headers };
}

function errorBody(path: string, status: number, message: string): object {
  if (/:\w+$/.test(path)) {
    const name = status === 429 ? "RESOURCE_EXHAUSTED" : status < 500 ? "INVALID_ARGUMENT" : "INTERNAL";
    return { error: { code: status, message, status: name } };
  }
  if (path.endsWith("/messages")) {
    const type = status === 429 ? "rate_limit_error" : status < 500 ? "invalid_request_error" : "server_error";
    return { type: "error", error: { type, message } };
  }
  const type = status === 429 ? "requests" : status < 500 ? "invalid_request_error" : "server_error";
  return { error: { type, message, code: status === 429 ? "rate_limit_exceeded" : null, param: null } };
}

/** The budget that is left, in the fields of Anthropic or of OpenAI. */
function waitFields(path: string, retryAfter: number): Readonly<Record<string, string>> {
  const fields = { "retry-after": String(retryAfter) };
  if (path.endsWith("/messages")) {
    const reset = new Date(Date.now() + 1_000 * retryAfter).toISOString();
    return {
      ...fields,
      "anthropic-ratelimit-tokens-limit": "1000",
      "anthropic-ratelimit-tokens-remaining": "0",
      "anthropic-ratelimit-tokens-reset": reset,
    };
  }
  if (!/\/(?:completions|responses|embeddings)$/.test(path)) return fields;
  return {
    ...fields,
    "x-ratelimit-limit-tokens": "1000",
    "x-ratelimit-remaining-tokens": "0",
    "x-ratelimit-reset-tokens": `${retryAfter}s`,
  };
}
