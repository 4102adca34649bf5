/**
 * One listening socket that speaks HTTP/1.1 and HTTP/2 with prior knowledge, told apart by the first bytes of each
 * connection (RFC 9113 §3.4: an HTTP/2 client begins with `PRI * HTTP/2.0`). What to do with a request is given in and
 * may change while connections stay.
 */
import { createServer as createHttp1Server, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import {
  createServer as createHttp2Server,
  type Http2Server,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import type { Downstream, DownstreamEvents } from "./downstream.ts";
import { Http1Downstream } from "./http1.ts";
import { Http2Downstream } from "./http2.ts";
import { type HeadFault, maxHeaderFields, readHttp1Head, readHttp2Head, type RequestHead } from "./request-head.ts";

/** Takes each request; returns who is told what the client does next. */
export type RequestHandler = (downstream: Downstream) => DownstreamEvents;

export interface BindOptions {
  /** IP address to listen on; absent: every address of the machine. */
  readonly host: string | undefined;
  readonly port: number;
  /** Several workers share the port; the kernel spreads connections over them. */
  readonly reusePort: boolean;
  readonly onRequest: RequestHandler;
  readonly onConnectionOpened: () => void;
  readonly onConnectionClosed: () => void;
}

/** The connection preface; three bytes decide, since no HTTP/1 method begins so. */
const http2Preface = "PRI";
/** A connection that sends nothing is let go after this. */
const firstByteTimeoutMs = 60_000;

export class BindServer {
  readonly #options: BindOptions;
  readonly #http1: Server;
  readonly #http2: Http2Server;
  readonly #sockets = new Set<Socket>();
  readonly #sessions = new Set<ServerHttp2Session>();
  #isDraining = false;

  private constructor(options: BindOptions) {
    this.#options = options;
    this.#http1 = createHttp1Server({
      // A request without a body is not given the machinery for one.
      optimizeEmptyRequests: true,
      keepAliveTimeout: 75_000,
      headersTimeout: 30_000,
      // Uploads may be long; slow heads are cut by headersTimeout.
      requestTimeout: 0,
      maxHeaderSize: 64 * 1024,
    });
    // One more than is accepted, so that an excess can be told from a full house.
    this.#http1.maxHeadersCount = maxHeaderFields + 1;
    this.#http1.on("request", (request, response) => this.#onHttp1(request, response, false));
    this.#http1.on("checkContinue", (request, response) => this.#onHttp1(request, response, true));
    this.#http2 = createHttp2Server({
      settings: { maxConcurrentStreams: 100, initialWindowSize: 256 * 1024, maxHeaderListSize: 64 * 1024 },
      maxSessionMemory: 32,
    });
    this.#http2.on("session", (session) => this.#onHttp2Session(session));
    this.#http2.on("stream", (stream: ServerHttp2Stream, _headers, flags, rawHeaders) =>
      this.#onHttp2(stream, flags, rawHeaders),
    );
    this.#sniffConnections();
  }

  /** Listens; rejects with Node's error (`EADDRINUSE`, `EACCES`, …). */
  static async open(options: BindOptions): Promise<BindServer> {
    const server = new BindServer(options);
    const { host, port, reusePort } = options;
    const address = host === undefined ? { port, reusePort } : { host, port, reusePort };
    await new Promise<void>((resolve, reject) => {
      server.#http1.once("error", reject);
      server.#http1.listen(address, () => {
        server.#http1.off("error", reject);
        resolve();
      });
    });
    return server;
  }

  /** The port in use; tells what port 0 became. */
  get port(): number {
    const address = this.#http1.address();
    return typeof address === "object" && address !== null ? address.port : this.#options.port;
  }

  /** Takes no new connection, lets idle ones go, asks the others to leave; resolves when the last one has. */
  drain(): Promise<void> {
    this.#isDraining = true;
    const closed = new Promise<void>((resolve) => this.#http1.close(() => resolve()));
    for (const session of this.#sessions) session.close();
    return closed;
  }

  /** Breaks every connection off. */
  destroy(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Puts a look at the first bytes before Node's own handling of a connection. */
  #sniffConnections(): void {
    const [onHttp1Connection] = this.#http1.listeners("connection");
    this.#http1.removeAllListeners("connection");
    this.#http1.on("connection", (socket: Socket) => {
      this.#track(socket);
      socket.setNoDelay(true);
      socket.setTimeout(firstByteTimeoutMs, () => socket.destroy());
      this.#readPreface(socket, [], (isHttp2) => {
        socket.setTimeout(0);
        if (isHttp2) {
          this.#http2.emit("connection", socket);
          return;
        }
        onHttp1Connection?.call(this.#http1, socket);
        socket.resume();
      });
    });
  }

  #readPreface(socket: Socket, chunks: Buffer[], decide: (isHttp2: boolean) => void): void {
    socket.once("data", (chunk: Buffer) => {
      chunks.push(chunk);
      const start = Buffer.concat(chunks).toString("latin1", 0, http2Preface.length);
      if (start.length < http2Preface.length && http2Preface.startsWith(start)) {
        this.#readPreface(socket, chunks, decide);
        return;
      }
      socket.pause();
      socket.unshift(chunks.length === 1 ? chunk : Buffer.concat(chunks));
      decide(start === http2Preface);
    });
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    this.#options.onConnectionOpened();
    // A reset by the client; "close" follows.
    socket.on("error", ignore);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      this.#options.onConnectionClosed();
    });
  }

  #onHttp1(request: IncomingMessage, response: ServerResponse, awaitsContinue: boolean): void {
    const head = readHttp1Head(request.method ?? "", request.url ?? "", request.httpVersion, request.rawHeaders);
    if ("message" in head) {
      const body = `${head.message}\n`;
      response.writeHead(head.status, [
        "content-type",
        "text/plain",
        "content-length",
        String(body.length),
        "connection",
        "close",
      ]);
      response.end(body);
      return;
    }
    const downstream = new Http1Downstream(request, response, { head, awaitsContinue, isDraining: this.#drainingNow });
    downstream.listen(this.#options.onRequest(downstream));
  }

  readonly #drainingNow = (): boolean => this.#isDraining;

  #onHttp2Session(session: ServerHttp2Session): void {
    this.#sessions.add(session);
    session.on("error", ignore);
    session.once("close", () => this.#sessions.delete(session));
    if (this.#isDraining) session.close();
  }

  #onHttp2(stream: ServerHttp2Stream, flags: number, rawHeaders: readonly string[]): void {
    stream.on("error", ignore);
    const head = http2Head(rawHeaders);
    if ("message" in head) {
      stream.respond([":status", String(head.status), "content-type", "text/plain"]);
      stream.end(`${head.message}\n`);
      return;
    }
    const endOfStream = (flags & endStreamFlag) !== 0;
    const downstream = new Http2Downstream(stream, head, endOfStream);
    downstream.listen(this.#options.onRequest(downstream));
  }
}

/** RFC 9113 §6.2 */
const endStreamFlag = 0x1;

function http2Head(rawHeaders: readonly string[]): RequestHead | HeadFault {
  let method = "";
  let path = "";
  let authority: string | undefined;
  // Pseudo-header fields come first (RFC 9113 §8.3).
  for (let i = 0; i < rawHeaders.length && rawHeaders[i]?.startsWith(":") === true; i += 2) {
    const value = rawHeaders[i + 1] ?? "";
    if (rawHeaders[i] === ":method") method = value;
    else if (rawHeaders[i] === ":path") path = value;
    else if (rawHeaders[i] === ":authority") authority = value;
  }
  return readHttp2Head(method, path, authority, rawHeaders);
}

function ignore(): void {
  // Nothing to do: "close" reports it.
}
