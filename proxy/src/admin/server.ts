/**
 * The HTTP side of the admin server: checks access, finds the endpoint, and writes its response. Every error is JSON
 * `{error, hint}`.
 */
import { once } from "node:events";
import { type IncomingMessage, maxHeaderSize, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { AdminError as ErrorBody } from "@gatewayproxy/admin-api/error";
import { createBoundedServer } from "@gatewayproxy/runtime/bounded-http-server";
import type { Logger } from "@gatewayproxy/runtime/log";
import { withinOpenFiles } from "@gatewayproxy/runtime/open-files";
import { redactHeaders, redactPath, redactText } from "@gatewayproxy/runtime/redaction";
import type { SocketAddress, UnixAddress } from "@gatewayproxy/runtime/setting-kinds";
import { removeStaleSocket } from "@gatewayproxy/runtime/socket-file";
import {
  type AdminResponse,
  type AdminEndpoint,
  type AdminHandler,
  type AdminMethod,
  adminMethods,
  reject,
} from "./endpoint.ts";
import { sendEvents } from "./event-stream.ts";
import { checkOrigin, checkToken, readToken } from "./guard.ts";
import { jsonChunks } from "./json-text.ts";
import { findUnknown } from "./parameters.ts";

/** Connections of open pages and of tools. */
const maxConnections = 256;
/** And of the limit of open files. */
const openFilePart = 1 / 32;

/** The address, the access rules and the endpoints of an admin server. */
export interface AdminServerOptions {
  /** A TCP address (port 0 takes a free port) or the path of a Unix socket. */
  readonly address: SocketAddress | UnixAddress;
  /** Every request must contain the token in this file; absent: no token is required. */
  readonly tokenFile?: string;
  /** Allowed hosts besides localhost and loopback addresses. */
  readonly hosts: readonly string[];
  /** The endpoints; every other path gets a 404. */
  readonly endpoints: readonly AdminEndpoint[];
  /** Receives requests at debug, and failed ones at error. */
  readonly log: Logger;
  /** Returns the file for a path below `/ui`; absent: such paths get a 404. */
  readonly files?: (path: string) => AdminResponse | undefined;
}

/** An open admin server. */
export interface AdminServer {
  /** The listening address; the port is the real one if port 0 was requested. */
  readonly address: SocketAddress | UnixAddress;
  /** Closes the server and all connections at once. */
  close(): Promise<void>;
}

/** Opens the admin server. Rejects if the address cannot be listened on, or the token cannot be read. */
export async function openAdminServer(options: AdminServerOptions): Promise<AdminServer> {
  if (options.tokenFile !== undefined) await readToken(options.tokenFile);
  const server = createBoundedServer(
    { maxConnections: withinOpenFiles(maxConnections, openFilePart) },
    (request, response) => void serve(options, request, response),
  );
  server.on("clientError", rejectMalformed);
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
    // The umask lets only the owner connect. `listen` creates the file of the socket synchronously.
    const before = process.umask(0o177);
    server.listen(address.path);
    process.umask(before);
    await listening;
    return address;
  }
  server.listen(address);
  await listening;
  const { address: host, port } = server.address() as AddressInfo; // A listening TCP server has such an address.
  return { host, port };
}

async function serve(options: AdminServerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { log } = options;
  // No endpoint takes a body.
  request.resume();
  const disconnect = new AbortController();
  response.once("close", () => disconnect.abort());
  try {
    const result = await handle(options, request, disconnect.signal);
    if (log.isLevelEnabled("debug")) logResponse(log, request, result);
    await write(response, result, disconnect.signal);
  } catch (error) {
    log.error({ err: error, path: redactPath(request.url ?? "") }, "an admin request failed");
    if (response.headersSent) {
      response.destroy();
    } else {
      await write(
        response,
        reject(500, "the response could not be created", "the log contains the cause"),
        disconnect.signal,
      );
    }
  }
}

function logResponse(
  log: Logger,
  { method = "", url = "", socket, rawHeaders }: IncomingMessage,
  result: AdminResponse,
) {
  const fields = { source: socket.remoteAddress, method: redactText(method), path: redactPath(url) };
  log.trace({ ...fields, headers: redactHeaders(rawHeaders) }, "request head received");
  const error = result.kind === "error" && { error: redactText(result.error) };
  log.debug({ ...fields, status: result.kind === "error" ? result.status : 200, ...error }, "response sent");
}

async function handle(
  { endpoints, hosts, files, tokenFile }: AdminServerOptions,
  { url = "/", method = "", headers, socket }: IncomingMessage,
  signal: AbortSignal,
): Promise<AdminResponse> {
  const originError = checkOrigin(headers, hosts, tokenFile !== undefined);
  if (originError !== undefined) return originError;
  const tokenError = tokenFile === undefined ? undefined : await checkToken(headers, tokenFile);
  if (tokenError !== undefined) return tokenError;
  const queryStart = url.indexOf("?");
  const path = queryStart === -1 ? url : url.slice(0, queryStart);
  const query = new URLSearchParams(queryStart === -1 ? "" : url.slice(queryStart));
  const endpoint = endpoints.find((candidate) => candidate.path === path);
  const file = endpoint === undefined ? files?.(path) : undefined;
  const methods = endpoint?.methods ?? (file && { GET: () => file });
  if (methods === undefined) {
    return notFound(path, [...endpoints.map((candidate) => candidate.path), ...(files ? ["/ui"] : [])]);
  }
  const handler = handlerOf(methods, method);
  if (handler === undefined) return methodNotAllowed(path, methods, method);
  if (hasBody(headers)) {
    return reject(400, `${path} does not accept a body`, `use query parameters: ${describeQuery(endpoint)}`);
  }
  const parsed = { query, headers, source: socket.remoteAddress, signal };
  if (endpoint === undefined) return handler(parsed);
  return findUnknown(query, path, endpoint.query) ?? (await handler(parsed));
}

/** Whether a request has a body that is not empty (RFC 9112 §6.3). */
function hasBody(headers: IncomingMessage["headers"]): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

function describeQuery(endpoint: AdminEndpoint | undefined): string {
  return endpoint === undefined || endpoint.query.length === 0
    ? "none"
    : endpoint.query.map((parameter) => `?${parameter}`).join(" or ");
}

/**
 * HEAD is handled as a GET whose client has disconnected: nothing is recorded for it, and Node sends no body (RFC 9110
 * §9.3.2).
 */
function handlerOf(methods: AdminEndpoint["methods"], method: string): AdminHandler | undefined {
  const { GET } = methods;
  if (method === "HEAD") return GET && ((request) => GET({ ...request, signal: AbortSignal.abort() }));
  return adminMethods.includes(method as AdminMethod) ? methods[method as AdminMethod] : undefined; // Checked by `includes`.
}

function notFound(path: string, paths: readonly string[]): AdminResponse {
  return reject(404, `path ${path} does not exist`, `available paths: ${paths.join(", ")}`);
}

function methodNotAllowed(path: string, methods: AdminEndpoint["methods"], method: string): AdminResponse {
  const allowed = Object.keys(methods)
    .flatMap((name) => (name === "GET" ? ["GET", "HEAD"] : [name]))
    .join(", ");
  const error = reject(405, `${path} does not accept ${method}`, `${path} accepts ${allowed}`);
  return { ...error, headers: { allow: allowed } };
}

/** The members of the socket that are used after a parse error. */
interface ClientSocket {
  readonly writable: boolean;
  end(text: string): unknown;
  destroy(): unknown;
}

/** Responds to a request that Node's parser rejects, in the same form as other errors. */
function rejectMalformed(error: NodeJS.ErrnoException, socket: ClientSocket): void {
  const { status, reason } = malformedReasons[error.code ?? ""] ?? {
    status: "400 Bad Request",
    reason: "is not valid HTTP/1.1",
  };
  const body = `${JSON.stringify({ error: `the request ${reason}`, hint: "GET / lists the endpoints" } satisfies ErrorBody)}\n`;
  const head = [
    `HTTP/1.1 ${status}`,
    ...Object.entries(commonHeaders).map(([name, value]) => `${name}: ${value}`),
    ...["content-type: application/json", `content-length: ${Buffer.byteLength(body)}`, "connection: close"],
  ];
  if (socket.writable) socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
  else socket.destroy();
}

/** Status and reason by the code of the parse error. */
const malformedReasons: Readonly<Record<string, { readonly status: string; readonly reason: string }>> = {
  HPE_HEADER_OVERFLOW: {
    status: "431 Request Header Fields Too Large",
    reason: `has a head of more than ${maxHeaderSize} bytes`,
  },
  HPE_INVALID_METHOD: { status: "400 Bad Request", reason: "has an unknown method" },
  ERR_HTTP_REQUEST_TIMEOUT: { status: "408 Request Timeout", reason: "took too long to arrive" },
};

/** Maximum characters of an error, which may contain parts of the request. */
const maxErrorLength = 500;

/** Headers of every response: no caching, no content sniffing, no framing. */
const commonHeaders = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
};

async function write(response: ServerResponse, result: AdminResponse, signal: AbortSignal): Promise<void> {
  switch (result.kind) {
    case "json":
      return writeJson(response, 200, result.value, {}, signal);
    case "error": {
      const { status, error, hint, headers = {} } = result;
      const clipped = error.length > maxErrorLength ? `${error.slice(0, maxErrorLength)} …` : error;
      return writeJson(response, status, { error: clipped, hint } satisfies ErrorBody, headers, signal);
    }
    case "text": {
      const { text, contentType = "text/plain; charset=utf-8", whenSent = () => undefined } = result;
      response.writeHead(200, { ...commonHeaders, "content-type": contentType }).end(text, whenSent);
      return;
    }
    case "file": {
      const { bytes, contentType, name } = result;
      const disposition = `attachment; filename="${name}"`;
      response.writeHead(200, { ...commonHeaders, "content-type": contentType, "content-disposition": disposition });
      response.end(bytes);
      return;
    }
    case "asset": {
      const { bytes, contentType, contentSecurityPolicy } = result;
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
      return sendEvents(response, result.send, signal);
  }
}

/** Writes JSON in chunks over several turns of the event loop, as fast as the client reads. */
async function writeJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> {
  response.writeHead(status, { ...commonHeaders, ...headers, "content-type": "application/json" });
  let pending = "";
  for (const chunk of jsonChunks(value)) {
    if (pending !== "") {
      const canContinue = response.write(pending);
      // A client that has disconnected is reported by the signal.
      await (canContinue ? nextTurn() : once(response, "drain", { signal }).catch(() => undefined));
      if (signal.aborted) return;
    }
    pending = chunk;
  }
  // If the response is a single chunk, Node sends its length in the head.
  response.end(pending);
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
