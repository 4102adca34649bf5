/** A small HTTP server for doors that are not the fast one: fixed paths, bodies in one piece, errors in words. */
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { Clock } from "@gatewayproxy/runtime/clock";

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
  /** Longest body taken; the default is 4 MiB, as for gRPC. */
  readonly maxBodyBytes?: number;
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

  constructor(options: HttpServerOptions) {
    this.#options = options;
    this.#server = createServer({ requestTimeout: 60_000 }, (req, res) => void this.#serve(req, res));
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
      write(res, await this.#answer(req, res), req.method === "HEAD");
    } catch (error) {
      this.#options.onFault(error);
      if (!res.headersSent) write(res, textAnswer(500, "internal error\n"), false);
    }
  }

  async #answer(req: IncomingMessage, res: ServerResponse): Promise<HttpAnswer> {
    const refusal = this.#options.guard?.(req.headers);
    if (refusal !== undefined) return { ...refusal, headers: { connection: "close" } };
    const url = new URL(req.url ?? "/", "http://service");
    const route = this.#options.routes.get(url.pathname);
    if (route === undefined) {
      const paths = [...this.#options.routes.keys()].join(", ");
      return textAnswer(404, `nothing is at ${url.pathname}; there are ${paths}\n`);
    }
    const body = await this.#readBody(req);
    if (body === undefined) {
      return { ...textAnswer(413, "the body is too large\n"), headers: { connection: "close" } };
    }
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

  /** The whole body; `undefined` when it is longer than allowed. */
  async #readBody(req: IncomingMessage): Promise<Buffer | undefined> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of req as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > (this.#options.maxBodyBytes ?? 4_194_304)) return undefined;
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }
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
