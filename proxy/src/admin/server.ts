/**
 * The admin server over HTTP: checks who asks, finds the endpoint, and writes its answer. Every refusal is JSON
 * `{error, hint}`. What the endpoints do is theirs.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, maxHeaderSize, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { AdminError } from "@gatewayproxy/admin-api/error";
import { ConnectionShares } from "@gatewayproxy/runtime/connection-shares";
import type { Logger } from "@gatewayproxy/runtime/log";
import { shownHeaders, shownPath, shownText } from "@gatewayproxy/runtime/redaction";
import { oneRequestAtATime } from "@gatewayproxy/runtime/one-request-at-a-time";
import type { SocketAddress, UnixAddress } from "@gatewayproxy/runtime/setting-kinds";
import { removeStaleSocket } from "@gatewayproxy/runtime/socket-file";
import {
  type AdminAnswer,
  type AdminEndpoint,
  type AdminHandler,
  type AdminMethod,
  adminMethods,
  refuse,
} from "./endpoint.ts";
import { sendEvents } from "./event-stream.ts";
import { findIntrusion, findStranger, readToken } from "./guard.ts";
import { jsonPieces } from "./json-text.ts";
import { findUnknown } from "./parameters.ts";

/** Of pages that watch, and of tools. */
const maxConnections = 256;

export interface AdminServerOptions {
  readonly address: SocketAddress | UnixAddress;
  /** Every request must bring the token in this file; absent: none. */
  readonly tokenFile?: string;
  /** Hosts to allow besides localhost and loopback addresses. */
  readonly hosts: readonly string[];
  readonly endpoints: readonly AdminEndpoint[];
  readonly log: Logger;
  /** Answers paths below `/ui`; absent: they are 404. */
  readonly files?: (path: string) => AdminAnswer | undefined;
}

export interface AdminServer {
  /** Where it listens; tells what port 0 became. */
  readonly address: SocketAddress | UnixAddress;
  /** Breaks off what is under way. */
  close(): Promise<void>;
}

/** Rejects when the address cannot be listened on, or the token cannot be read. */
export async function openAdminServer(options: AdminServerOptions): Promise<AdminServer> {
  if (options.tokenFile !== undefined) await readToken(options.tokenFile);
  const server = createServer(oneRequestAtATime((request, response) => void serve(options, request, response)));
  const shares = new ConnectionShares(maxConnections);
  server.on("connection", (socket: Socket) => shares.admit(socket));
  server.on("clientError", refuseUnreadable);
  return {
    address: await listen(server, options.address),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function listen(server: Server, address: AdminServer["address"]): Promise<AdminServer["address"]> {
  if ("path" in address) await removeStaleSocket(address.path);
  const listening = once(server, "listening");
  if ("path" in address) {
    // Only the owner may connect, from the first moment on: the socket's file is made within this call.
    const before = process.umask(0o177);
    server.listen(address.path);
    process.umask(before);
    await listening;
    return address;
  }
  server.listen(address);
  await listening;
  const { address: host, port } = server.address() as AddressInfo; // a TCP server that listens has one
  return { host, port };
}

async function serve(options: AdminServerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { log } = options;
  // No endpoint takes a body.
  request.resume();
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  try {
    const answered = await answer(options, request, gone.signal);
    if (log.isLevelEnabled("debug")) logAnswer(log, request, answered);
    await write(response, answered, gone.signal);
  } catch (error) {
    log.error({ err: error, path: shownPath(request.url ?? "") }, "an admin request failed");
    if (response.headersSent) response.destroy();
    else await write(response, refuse(500, "the answer could not be made", "the log says why"), gone.signal);
  }
}

function logAnswer(log: Logger, { method = "", url = "", socket, rawHeaders }: IncomingMessage, answered: AdminAnswer) {
  const about = { source: socket.remoteAddress, method: shownText(method), path: shownPath(url) };
  log.trace({ ...about, headers: shownHeaders(rawHeaders) }, "request head received");
  const refusal = answered.kind === "refused" && { error: shownText(answered.error) };
  log.debug({ ...about, status: answered.kind === "refused" ? answered.status : 200, ...refusal }, "request answered");
}

async function answer(
  { endpoints, hosts, files, tokenFile }: AdminServerOptions,
  { url = "/", method = "", headers }: IncomingMessage,
  signal: AbortSignal,
): Promise<AdminAnswer> {
  const intrusion = findIntrusion(headers, hosts, tokenFile !== undefined);
  if (intrusion !== undefined) return intrusion;
  const stranger = tokenFile === undefined ? undefined : await findStranger(headers, tokenFile);
  if (stranger !== undefined) return stranger;
  const queryStart = url.indexOf("?");
  const path = queryStart === -1 ? url : url.slice(0, queryStart);
  const query = new URLSearchParams(queryStart === -1 ? "" : url.slice(queryStart));
  const endpoint = endpoints.find((candidate) => candidate.path === path);
  const file = endpoint === undefined ? files?.(path) : undefined;
  const methods = endpoint?.methods ?? (file && { GET: () => file });
  if (methods === undefined) return notFound(path, [...endpoints.map((each) => each.path), ...(files ? ["/ui"] : [])]);
  const handler = handlerOf(methods, method);
  if (handler === undefined) return methodNotAllowed(path, methods, method);
  if (hasBody(headers))
    return refuse(400, `${path} with a body`, `parameters are in the query: ${describeQuery(endpoint)}`);
  if (endpoint === undefined) return handler({ query, headers, signal });
  return findUnknown(query, path, endpoint.query) ?? (await handler({ query, headers, signal }));
}

/** Whether a request announces a body of more than no bytes (RFC 9112 §6.3). */
function hasBody(headers: IncomingMessage["headers"]): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

function describeQuery(endpoint: AdminEndpoint | undefined): string {
  return endpoint === undefined || endpoint.query.length === 0
    ? "there are none"
    : endpoint.query.map((parameter) => `?${parameter}`).join(" or ");
}

/** HEAD is GET for a client that has gone: nothing is recorded for it, and Node sends no body (RFC 9110 §9.3.2). */
function handlerOf(methods: AdminEndpoint["methods"], method: string): AdminHandler | undefined {
  const { GET } = methods;
  if (method === "HEAD") return GET && ((request) => GET({ ...request, signal: AbortSignal.abort() }));
  return adminMethods.includes(method as AdminMethod) ? methods[method as AdminMethod] : undefined; // by the check
}

function notFound(path: string, paths: readonly string[]): AdminAnswer {
  return refuse(404, `there is no ${path}`, `there are ${paths.join(", ")}`);
}

function methodNotAllowed(path: string, methods: AdminEndpoint["methods"], method: string): AdminAnswer {
  const allowed = Object.keys(methods)
    .flatMap((each) => (each === "GET" ? ["GET", "HEAD"] : [each]))
    .join(", ");
  const refusal = refuse(405, `${path} does not take ${method}`, `${path} takes ${allowed}`);
  return { ...refusal, headers: { allow: allowed } };
}

/** What is needed of the socket of a request that could not be parsed. */
interface ClientSocket {
  readonly writable: boolean;
  end(text: string): unknown;
  destroy(): unknown;
}

/** Answers what Node's parser refuses, in the form of every other refusal. */
function refuseUnreadable(error: NodeJS.ErrnoException, socket: ClientSocket): void {
  const { status, reason } = unreadable[error.code ?? ""] ?? { status: "400 Bad Request", reason: "is no HTTP/1.1" };
  const body = `${JSON.stringify({ error: `the request ${reason}`, hint: "GET / lists what there is" } satisfies AdminError)}\n`;
  const head = [
    `HTTP/1.1 ${status}`,
    ...Object.entries(commonHeaders).map(([name, value]) => `${name}: ${value}`),
    ...["content-type: application/json", `content-length: ${Buffer.byteLength(body)}`, "connection: close"],
  ];
  if (socket.writable) socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
  else socket.destroy();
}

/** By the code of the error. */
const unreadable: Readonly<Record<string, { readonly status: string; readonly reason: string }>> = {
  HPE_HEADER_OVERFLOW: {
    status: "431 Request Header Fields Too Large",
    reason: `has a head of more than ${maxHeaderSize} bytes`,
  },
  HPE_INVALID_METHOD: { status: "400 Bad Request", reason: "has a method that HTTP does not know" },
  ERR_HTTP_REQUEST_TIMEOUT: { status: "408 Request Timeout", reason: "took too long to arrive" },
};

/** Characters of an error, which may repeat what was asked. */
const maxErrorLength = 500;

/** For every answer: nothing is kept, guessed or framed. */
const commonHeaders = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
};

async function write(response: ServerResponse, answered: AdminAnswer, signal: AbortSignal): Promise<void> {
  switch (answered.kind) {
    case "json":
      return writeJson(response, 200, answered.value, {}, signal);
    case "refused": {
      const { status, error, hint, headers = {} } = answered;
      const clipped = error.length > maxErrorLength ? `${error.slice(0, maxErrorLength)} …` : error;
      return writeJson(response, status, { error: clipped, hint } satisfies AdminError, headers, signal);
    }
    case "text": {
      const { text, contentType = "text/plain; charset=utf-8", whenSent = () => undefined } = answered;
      response.writeHead(200, { ...commonHeaders, "content-type": contentType }).end(text, whenSent);
      return;
    }
    case "file": {
      const { bytes, contentType, name } = answered;
      const disposition = `attachment; filename="${name}"`;
      response.writeHead(200, { ...commonHeaders, "content-type": contentType, "content-disposition": disposition });
      response.end(bytes);
      return;
    }
    case "asset": {
      const { bytes, contentType, contentSecurityPolicy } = answered;
      const headers = { "content-type": contentType, "content-security-policy": contentSecurityPolicy };
      response.writeHead(200, { ...commonHeaders, ...headers }).end(bytes);
      return;
    }
    case "events":
      response.writeHead(200, { ...commonHeaders, "content-type": "text/event-stream" });
      if (response.req.method === "HEAD") {
        response.end();
        return;
      }
      return sendEvents(response, answered.send, signal);
  }
}

/** In turns of the event loop, and at the pace of the client. */
async function writeJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  response.writeHead(status, { ...commonHeaders, ...headers, "content-type": "application/json" });
  let waiting = "";
  for (const piece of jsonPieces(value)) {
    if (waiting !== "") {
      const isTaken = response.write(waiting);
      // A client that has gone takes nothing more, and says so by the signal.
      await (isTaken ? nextTurn() : once(response, "drain", { signal }).catch(() => undefined));
      if (signal.aborted) return;
    }
    waiting = piece;
  }
  // An answer of one piece has its length in the head.
  response.end(waiting);
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
