/**
 * A gRPC server for few methods and very many small calls, on the HTTP/2 implementation of `http/`. It serves unary and
 * streaming methods on one port, plain or TLS, TCP or a Unix socket. docs/adr/0004 explains why it exists.
 */
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { defaultMaxConnectionMemory, defaultMaxConnections } from "./connection-bounds.ts";
import { FairConnectionLimit } from "@gatewayproxy/runtime/fair-connection-limit";
import { ServerConnection } from "@gatewayproxy/http/http2/server/server-connection";
import { ConnectionError } from "@gatewayproxy/http/http2/frame";
import { defaultHttp2Limits, type Http2Limits } from "@gatewayproxy/http/http2/server/server-limits";
import type { RequestHead } from "@gatewayproxy/http/http2/server/request-head";
import type { RequestHandler } from "@gatewayproxy/http/http2/server/request-streams";
import type { ServerStream, StreamReceiver } from "@gatewayproxy/http/http2/server/server-stream";
import { ConnectionMemory } from "@gatewayproxy/http/http2/server/connection-memory";
import { CallContext } from "./call-context.ts";
import { type CallHead, readCallHead } from "./call-head.ts";
import { Deadlines } from "./deadlines.ts";
import { PartialBytes } from "../message-framing.ts";
import type { GrpcMethods } from "./method.ts";
import type { ServerTls } from "./server-tls.ts";
import { GrpcError, StatusCode } from "../status.ts";
import { StreamingCall } from "./streaming-call.ts";
import { UnaryCall } from "./unary-call.ts";

/** The methods, the bounds, and the receivers of errors. */
export interface GrpcServerOptions {
  /** The methods by path; any other call gets UNIMPLEMENTED. */
  readonly methods: GrpcMethods;
  /** Times deadlines, and the ages and pings of connections. */
  readonly clock: Clock;
  /** The certificates, and the requirements on client certificates; absent: plain text. */
  readonly tls?: ServerTls;
  /** Bounds of a connection; the default is `defaultHttp2Limits`. */
  readonly limits?: Http2Limits;
  /** Maximum size of a message, compressed or not; the default is 256 KiB. */
  readonly maxMessageBytes?: number;
  /** Maximum memory of incomplete messages in bytes, of all clients together; the default is 32 MiB. */
  readonly maxPartialBytes?: number;
  /** Maximum number of calls in progress; the default is 10,000. Further ones get UNAVAILABLE. */
  readonly maxCalls?: number;
  /**
   * Bytes of unread responses and open calls, of all clients together; the default is 64 MiB. Beyond it, the connection
   * that uses most is closed.
   */
  readonly maxConnectionMemory?: number;
  /**
   * Maximum number of connections; the default is 4,096. Beyond it, a connection of the network with the most is
   * closed.
   */
  readonly maxConnections?: number;
  /** Age at which clients are asked to reconnect, ±10 %, so that new instances get connections too; absent: never. */
  readonly maxConnectionAgeMs?: number;
  /** Time that a client then has for its open calls; absent means unlimited. */
  readonly maxConnectionAgeGraceMs?: number;
  /** Returns a random number from 0 to 1. It spreads the ages of connections that began at the same time. */
  readonly random: () => number;
  /** Called for internal errors. */
  readonly onError: (error: unknown) => void;
  /** Called for errors of a client that end its connection: of the protocol, the TLS handshake, its certificate. */
  readonly onClientError: (error: unknown) => void;
}

/** Address to listen on: a TCP port (0 selects any free one) or the path of a Unix socket. */
export type ListenAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number; readonly reusePort?: boolean }
  | { readonly kind: "unix"; readonly path: string };

const checkIntervalMs = 1_000;

/** A client's connection, and the times at which it must end. */
interface Client {
  readonly connection: ServerConnection<CallHead>;
  /** Time at which it is drained. */
  drainAtMs: number;
  /** Time at which it is closed. */
  destroyAtMs: number;
}

/** A server of gRPC. `listen` opens it and `close` drains it. */
export class GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #limits: Http2Limits;
  readonly #memory: ConnectionMemory;
  readonly #connectionLimit: FairConnectionLimit;
  readonly #server: Server;
  readonly #deadlines: Deadlines;
  readonly #handler: RequestHandler<CallHead>;
  readonly #clients = new Set<Client>();
  readonly #streamingCalls = new Set<StreamingCall>();
  #checkTimer: Timer | undefined;
  #onEmpty: (() => void) | undefined;

  constructor(options: GrpcServerOptions) {
    this.#options = options;
    this.#limits = options.limits ?? defaultHttp2Limits;
    this.#memory = new ConnectionMemory(options.maxConnectionMemory ?? defaultMaxConnectionMemory);
    this.#connectionLimit = new FairConnectionLimit(options.maxConnections ?? defaultMaxConnections);
    this.#deadlines = new Deadlines(options.clock);
    const context = new CallContext({
      deadlines: this.#deadlines,
      bounds: {
        maxMessageBytes: options.maxMessageBytes ?? 262_144,
        partialBytes: new PartialBytes(options.maxPartialBytes ?? 33_554_432),
      },
      maxCalls: options.maxCalls ?? 10_000,
      onError: options.onError,
    });
    this.#handler = {
      readHead: (head: RequestHead) => readCallHead(head, options.methods),
      open: (stream: ServerStream, head: CallHead) => this.#open(stream, head, context),
    };
    this.#server = this.#createServer();
  }

  /** Number of connected clients. */
  get connections(): number {
    return this.#clients.size;
  }

  /** Resolves with the address: the port for TCP, the path for a Unix socket. Rejects when it cannot be bound. */
  listen(address: ListenAddress): Promise<number | string> {
    const { promise, resolve, reject } = Promise.withResolvers<number | string>();
    const server = this.#server;
    server.once("error", reject);
    server.listen(
      address.kind === "unix"
        ? { path: address.path }
        : { host: address.host, port: address.port, reusePort: address.reusePort === true },
      () => {
        server.off("error", reject);
        server.on("error", this.#options.onError);
        resolve(address.kind === "unix" ? address.path : portOf(server.address()));
      },
    );
    this.#scheduleCheck();
    return promise;
  }

  /**
   * Accepts no new connections, drains clients, ends streaming calls, and waits at most `graceMs` for the calls in
   * progress. Then it closes the remaining connections.
   */
  async close(graceMs: number): Promise<void> {
    const { promise: allClosed, resolve } = Promise.withResolvers<undefined>();
    this.#server.close();
    this.#onEmpty = () => resolve(undefined);
    for (const call of this.#streamingCalls) {
      call.fail(new GrpcError(StatusCode.Unavailable, "the service is shutting down"));
    }
    for (const client of this.#clients) {
      client.connection.drain();
    }
    this.#resolveIfEmpty();
    const timer = this.#options.clock.setTimer(graceMs, () => this.#destroyAll());
    await allClosed;
    timer.cancel();
    this.#checkTimer?.cancel();
    this.#deadlines.stop();
  }

  #createServer(): Server {
    const { tls } = this.#options;
    if (tls === undefined) {
      return createServer({ noDelay: true }, (socket) => {
        if (this.#connectionLimit.accept(socket)) this.#accept(socket, false);
      });
    }
    const server = createTlsServer(
      { ...tls.options(), noDelay: true, ALPNProtocols: ["h2"], handshakeTimeout: 10_000 },
      (socket) => {
        const clientError = tls.clientErrorOf(socket);
        if (clientError === undefined) {
          this.#accept(socket, true);
        } else {
          this.#options.onClientError(new Error(clientError));
          socket.destroy();
        }
      },
    );
    // The check precedes the handshake, so that a connection that is closed at once takes no cryptography.
    server.prependListener("connection", (socket: Socket) => this.#connectionLimit.accept(socket));
    server.on("tlsClientError", this.#options.onClientError);
    tls.onChange((options) => server.setSecureContext(options));
    return server;
  }

  #accept(socket: Socket, isTls: boolean): void {
    const { clock, onError, onClientError } = this.#options;
    const client: Client = {
      connection: new ServerConnection({
        socket,
        isTls,
        clock,
        onError: (error) => (error instanceof ConnectionError ? onClientError(error) : onError(error)),
        handler: this.#handler,
        limits: this.#limits,
        memory: this.#memory,
        onClose: () => {
          this.#clients.delete(client);
          this.#resolveIfEmpty();
        },
      }),
      drainAtMs: clock.monotonicMs() + this.#jitteredAgeMs(),
      destroyAtMs: Infinity,
    };
    this.#clients.add(client);
  }

  #jitteredAgeMs(): number {
    const { maxConnectionAgeMs, random } = this.#options;
    return maxConnectionAgeMs === undefined ? Infinity : maxConnectionAgeMs * (0.9 + 0.2 * random());
  }

  #open(stream: ServerStream, head: CallHead, context: CallContext): StreamReceiver {
    if (head.kind === "rejected") {
      stream.respondHeadersOnly(head.response);
      return rejectedCall;
    }
    const { method } = head;
    if (method.kind === "unary") {
      return new UnaryCall(stream, head, method, context);
    }
    const call = new StreamingCall(stream, head.encoding, method, context, (ended) => {
      this.#streamingCalls.delete(ended);
    });
    this.#streamingCalls.add(call);
    return call;
  }

  #scheduleCheck(): void {
    this.#checkTimer = this.#options.clock.setTimer(checkIntervalMs, () => {
      this.#check();
      this.#scheduleCheck();
    });
  }

  #check(): void {
    const nowMs = this.#options.clock.monotonicMs();
    for (const client of this.#clients) {
      client.connection.check(nowMs);
      if (client.drainAtMs <= nowMs) {
        client.connection.drain();
        client.drainAtMs = Infinity;
        client.destroyAtMs = nowMs + (this.#options.maxConnectionAgeGraceMs ?? Infinity);
      } else if (client.destroyAtMs <= nowMs) {
        client.connection.destroy();
      }
    }
  }

  #destroyAll(): void {
    for (const client of this.#clients) {
      client.connection.destroy();
    }
  }

  #resolveIfEmpty(): void {
    if (this.#clients.size === 0) {
      this.#onEmpty?.();
    }
  }
}

/** The receiver of a call that has its response already. It discards the rest of the request. */
const rejectedCall: StreamReceiver = { data: () => undefined, cancel: () => undefined };

function portOf(address: AddressInfo | string | null): number {
  return typeof address === "object" && address !== null ? address.port : 0;
}
