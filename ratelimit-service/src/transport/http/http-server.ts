/** A small HTTP server for the ports beside gRPC: fixed paths, complete bodies, errors as text. */
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from "node:http";
import { createBoundedServer } from "@gatewayproxy/runtime/bounded-http-server";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { ChunkBuffer } from "@gatewayproxy/runtime/chunk-buffer";
import { redactPath } from "@gatewayproxy/runtime/redaction";
import { defaultMaxCallBytes } from "../../limiter/call-bounds.ts";
import { defaultMaxConnections } from "@gatewayproxy/grpc/server/connection-bounds";

/** A request with its whole body. */
export interface HttpRequest {
  readonly method: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The IP address of the client. */
  readonly client: string;
  /** Aborts when the client disconnects before it has its response. */
  readonly signal: AbortSignal;
}

/** A response with its whole body. */
export interface HttpResponse {
  readonly status: number;
  readonly contentType: string;
  readonly body: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Responds to a request. An error that it throws is reported and becomes a 500. */
export type HttpRoute = (request: HttpRequest) => HttpResponse | Promise<HttpResponse>;

/** The routes and the bounds of a server. */
export interface HttpServerOptions {
  /** By path, such as `/json`; for all methods. */
  readonly routes: ReadonlyMap<string, HttpRoute>;
  /** Times the shutdown. */
  readonly clock: Clock;
  /** Returns a response to reject a request by its headers. */
  readonly guard?: (headers: IncomingHttpHeaders) => HttpResponse | undefined;
  /** Called for an unexpected error of a route. */
  readonly onError: (error: unknown) => void;
  /** Called for each request with its response. */
  readonly onResponse?: ((request: IncomingMessage, response: HttpResponse) => void) | undefined;
  /** Maximum size of a body; the default is 256 KiB. A larger one gets 413. */
  readonly maxBodyBytes?: number;
  /**
   * Memory for bodies that are being received, of all clients together; the default is 32 MiB. Beyond it, requests get
   * 503.
   */
  readonly maxBodyMemoryBytes?: number;
  /**
   * Maximum number of connections; the default is 4,096. Beyond it, a connection of the network with the most is
   * closed.
   */
  readonly maxConnections?: number;
}

/** Returns a response with plain text. */
export function textResponse(status: number, text: string): HttpResponse {
  return { status, contentType: "text/plain; charset=utf-8", body: text };
}

/** Returns a response with indented JSON. */
export function jsonResponse(status: number, value: unknown): HttpResponse {
  return { status, contentType: "application/json", body: `${JSON.stringify(value, undefined, 2)}\n` };
}

/** A server of HTTP/1.1. `listen` opens it and `close` ends it. */
export class HttpServer {
  readonly #options: HttpServerOptions;
  readonly #server: Server;
  readonly #maxBodyBytes: number;
  readonly #maxBodyMemoryBytes: number;
  #bodyMemoryBytes = 0;

  constructor(options: HttpServerOptions) {
    this.#options = options;
    this.#maxBodyBytes = options.maxBodyBytes ?? defaultMaxCallBytes;
    this.#maxBodyMemoryBytes = options.maxBodyMemoryBytes ?? 33_554_432;
    this.#server = createBoundedServer(
      { requestTimeout: 60_000, maxConnections: options.maxConnections ?? defaultMaxConnections },
      (request, response) => void this.#serve(request, response),
    );
  }

  /** Memory of the bodies that are being received. */
  get bodyMemoryBytes(): number {
    return this.#bodyMemoryBytes;
  }

  /** Resolves with the port (0 selects any free one); rejects when it cannot be bound. */
  listen(host: string, port: number): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#server.once("error", reject);
    this.#server.listen({ host, port }, () => {
      this.#server.off("error", reject);
      this.#server.on("error", this.#options.onError);
      const address = this.#server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
    return promise;
  }

  /** Accepts no new connections and waits for the responses in progress, for `graceMs` at most. */
  async close(graceMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    this.#server.close(() => resolve(undefined));
    this.#server.closeIdleConnections();
    const timer = this.#options.clock.setTimer(graceMs, () => this.#server.closeAllConnections());
    await promise;
    timer.cancel();
  }

  async #serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    try {
      const response = await this.#response(req, res);
      this.#options.onResponse?.(req, response);
      write(res, response, req.method === "HEAD");
    } catch (error) {
      this.#options.onError(error);
      if (!res.headersSent) write(res, textResponse(500, "internal error\n"), false);
    }
  }

  async #response(req: IncomingMessage, res: ServerResponse): Promise<HttpResponse> {
    const rejection = this.#options.guard?.(req.headers);
    if (rejection !== undefined) return closeConnection(rejection);
    const target = req.url ?? "/";
    const url = URL.parse(target, "http://service");
    if (url === null) return textResponse(400, `request target ${redactPath(target)} is not a valid URL\n`);
    const route = this.#options.routes.get(url.pathname);
    if (route === undefined) {
      const paths = [...this.#options.routes.keys()].join(", ");
      return textResponse(404, `no route for ${redactPath(url.pathname)}; the paths are ${paths}\n`);
    }
    const body = await this.#readBody(req);
    if (!Buffer.isBuffer(body)) return body;
    const disconnected = new AbortController();
    res.on("close", () => disconnected.abort());
    return route({
      method: req.method ?? "GET",
      query: url.searchParams,
      headers: req.headers,
      body,
      client: req.socket.remoteAddress ?? "",
      signal: disconnected.signal,
    });
  }

  /** Returns the whole body, or the response to one that is too large or exceeds the memory bound. */
  async #readBody(req: IncomingMessage): Promise<Buffer | HttpResponse> {
    if (Number(req.headers["content-length"] ?? 0) > this.#maxBodyBytes) return this.#tooLarge();
    const chunks = new ChunkBuffer();
    let charged = 0;
    try {
      // The socket stays open for the response.
      for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        if (chunks.length + chunk.length > this.#maxBodyBytes) return this.#tooLarge();
        chunks.push(chunk);
        this.#bodyMemoryBytes += chunks.memoryBytes - charged;
        charged = chunks.memoryBytes;
        if (this.#bodyMemoryBytes > this.#maxBodyMemoryBytes) {
          return closeConnection(textResponse(503, "too many bodies are being received\n"));
        }
      }
      return chunks.take() ?? Buffer.alloc(0);
    } finally {
      this.#bodyMemoryBytes -= charged;
    }
  }

  #tooLarge(): HttpResponse {
    return closeConnection(
      textResponse(413, `the body is too large: at most ${this.#maxBodyBytes} bytes are accepted\n`),
    );
  }
}

/** Adds the field that closes the connection after the response. */
function closeConnection(response: HttpResponse): HttpResponse {
  return { ...response, headers: { ...response.headers, connection: "close" } };
}

function write(res: ServerResponse, response: HttpResponse, isHead: boolean): void {
  const body = Buffer.from(response.body);
  res.writeHead(response.status, {
    "content-type": response.contentType,
    "content-length": body.length,
    ...response.headers,
  });
  res.end(isHead ? undefined : body);
}
