/**
 * A gRPC server for few methods and very many small calls, on an HTTP/2 of its own (`../http2/`): serves unary and
 * streaming methods on one port, plain or TLS, TCP or a unix socket. Node's HTTP/2 costs several times as much a call,
 * more than the service it would carry.
 */
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { defaultMaxConnectionMemory, defaultMaxConnections } from "../connection-bounds.ts";
import { ConnectionShares } from "@gatewayproxy/runtime/connection-shares";
import { ServerConnection } from "../http2/connection.ts";
import { ConnectionError } from "@gatewayproxy/runtime/http2/frame";
import { defaultHttp2Limits, type Http2Limits } from "../http2/limits.ts";
import type { RequestHead } from "../http2/request-head.ts";
import type { RequestHandler } from "../http2/request-streams.ts";
import type { ServerStream, StreamReceiver } from "../http2/server-stream.ts";
import { ConnectionMemory } from "../http2/connection-memory.ts";
import { defaultMaxCallBytes } from "../../limiter/call-bounds.ts";
import { CallContext } from "./call-context.ts";
import { type CallHead, readCallHead } from "./call-head.ts";
import { Deadlines } from "./deadlines.ts";
import { PartialBytes } from "./message-framing.ts";
import type { GrpcMethods } from "./method.ts";
import type { ServerTls } from "./server-tls.ts";
import { GrpcError, StatusCode } from "./status.ts";
import { StreamingCall } from "./streaming-call.ts";
import { UnaryCall } from "./unary-call.ts";

export interface GrpcServerOptions {
  readonly methods: GrpcMethods;
  readonly clock: Clock;
  /** Certificates and what is asked of clients; absent serves plain text. */
  readonly tls?: ServerTls;
  /** See `defaultHttp2Limits`. */
  readonly limits?: Http2Limits;
  /** Largest message accepted, compressed or not; the default is 256 KiB. */
  readonly maxMessageBytes?: number;
  /** Memory of messages that wait for the rest of their call, of all clients together; the default is 32 MiB. */
  readonly maxPartialBytes?: number;
  /** Calls at work at one time; the default is 10,000, and more are answered UNAVAILABLE. */
  readonly maxCalls?: number;
  /** Bytes of unread answers and open calls, of all clients together; the default is 64 MiB. Beyond it who holds most goes. */
  readonly maxConnectionMemory?: number;
  /** Connections at one time; the default is 4,096. Beyond it the network with the most gives one up. */
  readonly maxConnections?: number;
  /** Age at which a client is asked to connect anew, ±10 %, so that a new instance gets its share; absent: never. */
  readonly maxConnectionAgeMs?: number;
  /** Time that a client then has for its open calls; absent: any. */
  readonly maxConnectionAgeGraceMs?: number;
  /** 0 to 1; spreads the ages of connections that began together. */
  readonly random: () => number;
  /** An error of ours. */
  readonly onFault: (error: unknown) => void;
  /** What a client did wrong, so that it was sent away: the protocol, the TLS handshake, its certificate. */
  readonly onClientFault: (error: unknown) => void;
}

/** Where to listen: a TCP port (0: any free one) or the path of a unix socket. */
export type ListenAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number; readonly reusePort?: boolean }
  | { readonly kind: "unix"; readonly path: string };

const checkMs = 1_000;

/** One client's connection and when it is due to end. */
interface Client {
  readonly connection: ServerConnection<CallHead>;
  /** Asked to leave then. */
  drainAtMs: number;
  /** Made to leave then. */
  destroyAtMs: number;
}

export class GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #limits: Http2Limits;
  readonly #memory: ConnectionMemory;
  readonly #shares: ConnectionShares;
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
    this.#shares = new ConnectionShares(options.maxConnections ?? defaultMaxConnections);
    this.#deadlines = new Deadlines(options.clock);
    const context = new CallContext({
      deadlines: this.#deadlines,
      bounds: {
        maxMessageBytes: options.maxMessageBytes ?? defaultMaxCallBytes,
        partialBytes: new PartialBytes(options.maxPartialBytes ?? 33_554_432),
      },
      maxCalls: options.maxCalls ?? 10_000,
      onFault: options.onFault,
    });
    this.#handler = {
      readHead: (head: RequestHead) => readCallHead(head, options.methods),
      open: (stream: ServerStream, head: CallHead) => this.#open(stream, head, context),
    };
    this.#server = this.#createServer();
  }

  /** Clients connected now. */
  get connections(): number {
    return this.#clients.size;
  }

  /** Resolves with the address in use: the port for TCP, the path for a unix socket. Rejects when it cannot be had. */
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
        server.on("error", this.#options.onFault);
        resolve(address.kind === "unix" ? address.path : portOf(server.address()));
      },
    );
    this.#scheduleCheck();
    return promise;
  }

  /**
   * Takes no new connection, asks clients to leave, ends streaming calls and waits for the calls at work, `graceMs` at
   * most; what is left then is cut off.
   */
  async close(graceMs: number): Promise<void> {
    const { promise: isEmpty, resolve } = Promise.withResolvers<undefined>();
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
    await isEmpty;
    timer.cancel();
    this.#checkTimer?.cancel();
    this.#deadlines.stop();
  }

  #createServer(): Server {
    const { tls } = this.#options;
    if (tls === undefined) {
      return createServer({ noDelay: true }, (socket) => {
        if (this.#shares.admit(socket)) this.#accept(socket, false);
      });
    }
    const server = createTlsServer(
      { ...tls.options(), noDelay: true, ALPNProtocols: ["h2"], handshakeTimeout: 10_000 },
      (socket) => {
        const fault = tls.faultOfClient(socket);
        if (fault === undefined) {
          this.#accept(socket, true);
        } else {
          this.#options.onClientFault(new Error(fault));
          socket.destroy();
        }
      },
    );
    // Before the handshake, which costs more than the connection.
    server.prependListener("connection", (socket: Socket) => this.#shares.admit(socket));
    server.on("tlsClientError", this.#options.onClientFault);
    tls.onChange((options) => server.setSecureContext(options));
    return server;
  }

  #accept(socket: Socket, isTls: boolean): void {
    const { clock, onFault, onClientFault } = this.#options;
    const client: Client = {
      connection: new ServerConnection({
        socket,
        isTls,
        clock,
        onFault: (error) => (error instanceof ConnectionError ? onClientFault(error) : onFault(error)),
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
    if (head.kind === "refused") {
      stream.respondHeadersOnly(head.response);
      return refusedCall;
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
    this.#checkTimer = this.#options.clock.setTimer(checkMs, () => {
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

/** Already answered; what still comes of it is of no interest. */
const refusedCall: StreamReceiver = { data: () => undefined, cancel: () => undefined };

function portOf(address: AddressInfo | string | null): number {
  return typeof address === "object" && address !== null ? address.port : 0;
}
