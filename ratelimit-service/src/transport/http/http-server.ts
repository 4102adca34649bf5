/** A small HTTP server for doors that are not the fast one: fixed paths, bodies in one piece, errors in words. */
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { KeptBytes } from "@gatewayproxy/runtime/kept-bytes";
import { shownPath } from "@gatewayproxy/runtime/redaction";
import { defaultMaxCallBytes } from "../../limiter/call-bounds.ts";
import { defaultMaxConnections } from "../connection-bounds.ts";
import { ConnectionShares } from "@gatewayproxy/runtime/connection-shares";
import { oneRequestAtATime } from "@gatewayproxy/runtime/one-request-at-a-time";

export interface HttpRequest {
  readonly method: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Aborts when the client has gone before it had its answer. */
  readonly signal: AbortSignal;
}

export interface HttpAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Answers a request; what it throws becomes a 500 and a report. */
export type HttpRoute = (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer>;

export interface HttpServerOptions {
  /** By path, such as `/json`; any method. */
  readonly routes: ReadonlyMap<string, HttpRoute>;
  readonly clock: Clock;
  /** Refuses a request by its head; absent: none is refused. */
  readonly guard?: (headers: IncomingHttpHeaders) => HttpAnswer | undefined;
  /** An error that a route should not throw. */
  readonly onFault: (error: unknown) => void;
  /** Told of each request and the status that it is answered with; absent: nobody is. */
  readonly onAnswered?: ((request: IncomingMessage, status: number) => void) | undefined;
  /** Longest body taken; the default is 256 KiB. A longer one is 413. */
  readonly maxBodyBytes?: number;
  /** Memory of the bodies that are being received, of all clients together; the default is 32 MiB. Beyond it 503. */
  readonly maxBodyMemoryBytes?: number;
  /** Connections at one time; absent: 4,096. Beyond it the network with the most gives one up. */
  readonly maxConnections?: number;
}

/** Plain text, ended by a line break. */
export function textAnswer(status: number, text: string): HttpAnswer {
  return { status, contentType: "text/plain; charset=utf-8", body: text };
}

/** JSON for people: indented. */
export function jsonAnswer(status: number, value: unknown): HttpAnswer {
  return { status, contentType: "application/json", body: `${JSON.stringify(value, undefined, 2)}\n` };
}

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
    this.#server = createServer(
      { requestTimeout: 60_000 },
      oneRequestAtATime((req, res) => void this.#serve(req, res)),
    );
    const shares = new ConnectionShares(options.maxConnections ?? defaultMaxConnections);
    this.#server.on("connection", (socket: Socket) => shares.admit(socket));
  }

  /** Memory of the bodies that are being received. */
  get bodyMemoryBytes(): number {
    return this.#bodyMemoryBytes;
  }

  /** Resolves with the port in use (0 asks for any free one); rejects when it cannot be had. */
  listen(host: string, port: number): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#server.once("error", reject);
    this.#server.listen({ host, port }, () => {
      this.#server.off("error", reject);
      this.#server.on("error", this.#options.onFault);
      const address = this.#server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
    return promise;
  }

  /** Takes no new connection and waits for the answers under way, `graceMs` at most. */
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
      const answer = await this.#answer(req, res);
      this.#options.onAnswered?.(req, answer.status);
      write(res, answer, req.method === "HEAD");
    } catch (error) {
      this.#options.onFault(error);
      if (!res.headersSent) write(res, textAnswer(500, "internal error\n"), false);
    }
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<HttpAnswer> {
    const refusal = this.#options.guard?.(req.headers);
    if (refusal !== undefined) return last(refusal);
    const url = new URL(req.url ?? "/", "http://service");
    const route = this.#options.routes.get(url.pathname);
    if (route === undefined) {
      const paths = [...this.#options.routes.keys()].join(", ");
      return textAnswer(404, `nothing is at ${shownPath(url.pathname)}; there are ${paths}\n`);
    }
    const body = await this.#readBody(req);
    if (!Buffer.isBuffer(body)) return body;
    const gone = new AbortController();
    res.on("close", () => gone.abort());
    return route({
      method: req.method ?? "GET",
      query: url.searchParams,
      headers: req.headers,
      body,
      signal: gone.signal,
    });
  }

  /** The whole body, or the answer to one that is too long or finds no room. */
  async #readBody(req: IncomingMessage): Promise<Buffer | HttpAnswer> {
    if (Number(req.headers["content-length"] ?? 0) > this.#maxBodyBytes) return this.#tooLarge();
    const kept = new KeptBytes();
    let charged = 0;
    try {
      // The socket stays open for the answer.
      for await (const chunk of req.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        if (kept.length + chunk.length > this.#maxBodyBytes) return this.#tooLarge();
        kept.push(chunk);
        this.#bodyMemoryBytes += kept.memoryBytes - charged;
        charged = kept.memoryBytes;
        if (this.#bodyMemoryBytes > this.#maxBodyMemoryBytes) {
          return last(textAnswer(503, "too many bodies are being received\n"));
        }
      }
      return kept.take() ?? Buffer.alloc(0);
    } finally {
      this.#bodyMemoryBytes -= charged;
    }
  }

  #tooLarge(): HttpAnswer {
    return last(textAnswer(413, `the body is too large: at most ${this.#maxBodyBytes} bytes are accepted\n`));
  }
}

/** The connection ends with this answer. */
function last(answer: HttpAnswer): HttpAnswer {
  return { ...answer, headers: { ...answer.headers, connection: "close" } };
}

function write(res: ServerResponse, answer: HttpAnswer, isHead: boolean): void {
  const body = Buffer.from(answer.body);
  res.writeHead(answer.status, {
    "content-type": answer.contentType,
    "content-length": body.length,
    ...answer.headers,
  });
  res.end(isHead ? undefined : body);
}
