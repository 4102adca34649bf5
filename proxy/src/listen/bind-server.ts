/**
 * One listening socket and its connections. What a connection speaks is found out once, at its beginning: the PROXY
 * protocol where a setting asks for it, then TLS where the listeners have it, then HTTP/1.1 or HTTP/2: by ALPN under
 * TLS, else by the first bytes (RFC 9113 §3.4: an HTTP/2 client begins with `PRI * HTTP/2.0`). What to do with a
 * request is given in and may change while connections stay; so may TLS, for connections that come then.
 */
import { createServer, type Server, type Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { isDeepStrictEqual } from "node:util";
import { Http1Server } from "@gatewayproxy/http/http1/server";
import type { RejectedHead } from "@gatewayproxy/http/http1/server-connection";
import type { Http1Exchange } from "@gatewayproxy/http/http1/server-exchange";
import { Http2Server } from "@gatewayproxy/http/http2/server/server";
import type { RequestHead as Http2RequestHead } from "@gatewayproxy/http/http2/server/request-head";
import type { Http2Exchange } from "@gatewayproxy/http/http2/server/server-exchange";
import { defaultHttp2Limits, type Http2Limits } from "@gatewayproxy/http/http2/server/server-limits";
import type { FieldList } from "@gatewayproxy/http/ports";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { UpgradeProtocols } from "./upgrade-protocol.ts";
import {
  beginHttp1,
  beginHttp2,
  type ClientRequestOptions,
  type Http2Head,
  readHttp2,
  reportRejected,
  reportTooLarge,
} from "./client-request.ts";
import type { ClientConnection, ClientConnections } from "./client-connections.ts";
import { type Connection, EndedRequests, type TlsSession } from "./connection.ts";
import type { ConnectionLines, ConnectionLog } from "./connection-log.ts";
import type { RequestReceiver } from "./downstream.ts";
import { type FirstBytes, readFirstBytes } from "./first-bytes.ts";
import { peerAddress } from "./peer-address.ts";
import { maxHeadBytes, maxHeaderFields, maxTargetLength, type RequestRules } from "./request-head.ts";
import { readProxyHeader, type ProxyHeader } from "./proxy-protocol.ts";
import { type TlsListener, TlsTermination } from "./tls-termination.ts";

/** The socket of a bind, and the receiver of its requests. */
export interface BindOptions extends RequestReceiver {
  /** IP address to listen on; absent: every address of the machine. */
  readonly host: string | undefined;
  /** TCP port; 0 takes a free one, which `BindServer.port` returns. */
  readonly port: number;
  /** Several workers share the port; the kernel spreads connections over them. */
  readonly reusePort: boolean;
  /** Times rejected requests and floods of small frames. */
  readonly clock: Clock;
  /** Every connection begins with a PROXY protocol header; one that does not is closed. */
  readonly expectsProxyHeader: boolean;
  /** The protocols to which a request may switch. */
  readonly upgradeProtocols: UpgradeProtocols;
  /** How paths and header names of requests are normalized or rejected. */
  readonly rules: RequestRules;
  /** Counts the memory of the connections, and closes some beyond its bounds. */
  readonly clients: ClientConnections;
  /** Logs connections, at debug. */
  readonly connectionLog: ConnectionLog;
  /** Something failed inside the proxy, and has ended a request before it began, or a connection. */
  readonly onFault: (error: unknown) => void;
  /** Called once for each accepted connection, before its first byte is read. */
  readonly onConnectionOpened: () => void;
  /** Called once for each accepted connection, when its socket is closed. */
  readonly onConnectionClosed: () => void;
}

/** A connection that sends nothing is let go after this. */
const firstByteTimeoutMs = 60_000;
/** How often the kernel asks whether a silent peer is still there; what it does not hear of stays open for ever. */
const keepAliveProbeMs = 60_000;

/** A connection, for operators. */
export interface OpenConnection {
  /** As `Connection.peer`. */
  readonly peer: string;
  /** Monotonic. */
  readonly sinceMs: number;
}

interface SecuredConnection {
  readonly client: ClientConnection;
  /** As `Connection.sourceAddress`. */
  readonly sourceAddress: string;
}

/** Bounds of the heads and trailers of HTTP/1. */
const http1Limits = {
  headBytes: maxHeadBytes,
  trailerBytes: maxHeadBytes,
  fields: maxHeaderFields,
  target: maxTargetLength,
};

/** Streams of an HTTP/2 connection that are open at once. */
const maxStreams = 100;

/** Bounds of HTTP/2 connections. */
const http2Limits: Http2Limits = {
  ...defaultHttp2Limits,
  maxConcurrentStreams: maxStreams,
  maxHeaderListBytes: maxHeadBytes,
  maxTrailers: maxHeaderFields,
  // Of each stream, 64 KiB and the part of a body that exceeds them may wait for a slow client.
  maxWaitingBytes: 32 * 1024 * 1024,
  allowsConnect: true,
  idleTimeoutMs: 300_000,
  // The work for a frame depends little on its length. A frame of this length or more pays for it with its bytes.
  smallFrames: { bytes: 64, burst: 10_000, perSecond: 5_000 },
  /**
   * A browser that leaves a page resets all of its streams. A client that opens streams only to reset them causes work for
   * nothing (CVE-2023-44487).
   */
  resets: { burst: 10 * maxStreams, perSecond: maxStreams },
};

/**
 * A listening socket with its connections. `open` creates it; `leave`, `drain` and `destroy` end it, in this order
 * where a shutdown has time.
 */
export class BindServer {
  readonly #options: BindOptions;
  readonly #server: Server;
  readonly #http1: Http1Server;
  readonly #http2: Http2Server;
  readonly #requests: ClientRequestOptions;
  /** By the socket as the kernel gave it. */
  readonly #sockets = new Map<Socket, ClientConnection>();
  /** Those that agree on TLS, or have, by the peer's address and port. */
  readonly #secured = new Map<string, SecuredConnection>();
  #tlsListeners: readonly TlsListener[] = [];
  #tls: TlsTermination | undefined;

  private constructor(options: BindOptions) {
    const { onRequest, onRejected, rules, upgradeProtocols, clock, clients } = options;
    const onParsed = (): void => clients.countRequest();
    this.#options = options;
    this.#http1 = new Http1Server({ limits: http1Limits, clock });
    this.#http2 = new Http2Server({ limits: http2Limits, clock });
    this.#requests = { onRequest, onRejected, onParsed, rules, upgradeProtocols };
    // After a switch of protocols, each side may end before the other.
    const socketOptions = {
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: keepAliveProbeMs,
    };
    this.#server = createServer(socketOptions, (socket) => this.#guard(socket, () => this.#accept(socket)));
  }

  /**
   * Listens.
   *
   * @param tls as for `setTls`.
   * @returns rejects with Node's error (`EADDRINUSE`, `EACCES`, …), or as `setTls` throws.
   */
  static async open(options: BindOptions, tls: readonly TlsListener[]): Promise<BindServer> {
    const server = new BindServer(options);
    server.setTls(tls);
    const { host, port, reusePort } = options;
    const address = host === undefined ? { port, reusePort } : { host, port, reusePort };
    await new Promise<void>((resolve, reject) => {
      server.#server.once("error", reject);
      server.#server.listen(address, () => {
        server.#server.off("error", reject);
        resolve();
      });
    });
    return server;
  }

  /** The port in use, also for port 0. */
  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : this.#options.port;
  }

  /**
   * Meets new connections with TLS as these listeners have it; in plain text when there are none. Throws, and changes
   * nothing, if OpenSSL rejects them.
   */
  setTls(listeners: readonly TlsListener[]): void {
    // A new termination forgets the keys of its session tickets, so it is made for a reason only.
    if (isDeepStrictEqual(listeners, this.#tlsListeners)) return;
    const onSecure = (socket: TLSSocket, session: TlsSession): void =>
      this.#guard(socket, () => this.#serveSecure(socket, session));
    const onRejected = (socket: TLSSocket, reason: string): void => this.#linesOf(socket)?.notSecured(reason);
    const { onFault } = this.#options;
    this.#tls = listeners.length === 0 ? undefined : new TlsTermination(listeners, { onSecure, onRejected, onFault });
    this.#tlsListeners = listeners;
  }

  /** Those that are open, the oldest first. */
  connections(): readonly OpenConnection[] {
    return Array.from(this.#sockets, ([socket, { sinceMs }]) => ({ peer: peerOf(socket), sinceMs }));
  }

  /**
   * Asks clients to leave: with the next response over HTTP/1.1, immediately over HTTP/2. Connections and requests are still
   * taken, and idle connections stay, because a request may be on its way on any of them.
   */
  leave(): void {
    this.#http1.leave();
    this.#http2.leave();
  }

  /** Takes no new connection, closes idle ones, asks the others to leave; resolves when the last one has. */
  drain(): Promise<void> {
    this.#options.connectionLog.draining();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#http1.drain();
    this.#http2.drain();
    return closed.then(() => {
      this.#http1.close();
      this.#http2.close();
    });
  }

  /** Breaks every connection off. */
  destroy(): void {
    for (const socket of this.#sockets.keys()) socket.destroy();
  }

  /** What fails while a connection is taken ends it. */
  #guard(socket: Socket, action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#fail(socket, error);
    }
  }

  #fail(socket: Socket, error: unknown): void {
    this.#linesOf(socket)?.closing("something failed inside the proxy");
    socket.destroy();
    this.#options.onFault(error);
  }

  #accept(socket: Socket): void {
    const client = this.#track(socket);
    // There were too many.
    if (socket.destroyed) return;
    socket.setTimeout(firstByteTimeoutMs, destroySocket);
    // A client that closes before the first request waits for nothing. Nor does a client of HTTP/2, at any time.
    socket.allowHalfOpen = false;
    if (!this.#options.expectsProxyHeader) {
      this.#begin(client, undefined);
      return;
    }
    const begin = (header: ProxyHeader): void => {
      if (header.kind === "invalid") {
        this.#linesOf(socket)?.closing("it did not begin with a PROXY protocol header");
        socket.destroy();
      } else {
        this.#begin(client, header.sourceAddress);
      }
    };
    readFirstBytes(socket, readProxyHeader, begin, (error) => this.#fail(socket, error));
  }

  /** @param headerAddress the client's address where it is not the peer's. */
  #begin(client: ClientConnection, headerAddress: string | undefined): void {
    const { socket } = client;
    if (this.#options.expectsProxyHeader) this.#options.clients.identify(client, headerAddress ?? peerAddress(socket));
    if (socket.destroyed) return;
    const sourceAddress = headerAddress ?? peerAddress(socket);
    const peer = peerOf(socket);
    if (this.#tls === undefined) {
      this.#sniff(client, { sourceAddress, peer, tls: undefined, ended: new EndedRequests() });
      return;
    }
    const secured = { client, sourceAddress };
    this.#secured.set(peer, secured);
    socket.once("close", () => {
      // Another connection may have the port again.
      if (this.#secured.get(peer) === secured) this.#secured.delete(peer);
    });
    // The handshake has its own time limit.
    socket.setTimeout(0, destroySocket);
    this.#tls.terminate(socket);
  }

  #sniff(client: ClientConnection, connection: Connection): void {
    const { socket } = client;
    const serve = (isHttp2: boolean): void => {
      socket.setTimeout(0, destroySocket);
      this.#serveHttp(client, socket, connection, isHttp2);
    };
    readFirstBytes(socket, readPreface, serve, (error) => this.#fail(socket, error));
  }

  #serveSecure(socket: TLSSocket, tls: TlsSession): void {
    const peer = peerOf(socket);
    const secured = this.#secured.get(peer);
    // Closed while the handshake came to its end.
    if (secured === undefined) {
      socket.destroy();
    } else {
      const { client, sourceAddress } = secured;
      this.#options.connectionLog.of(client.socket)?.secured(socket, tls.serverName);
      const connection = { sourceAddress, peer, tls, ended: new EndedRequests() };
      this.#serveHttp(client, socket, connection, socket.alpnProtocol === "h2");
    }
  }

  /** @param socket that HTTP is read from. */
  #serveHttp(client: ClientConnection, socket: Socket, connection: Connection, isHttp2: boolean): void {
    if (isHttp2) {
      this.#serveHttp2(client, socket, connection);
      return;
    }
    // A client that ends its side has left, see `Http1ServerConnection`. After a switch of protocols it may not have.
    socket.allowHalfOpen = true;
    const receiver = {
      onRequest: (exchange: Http1Exchange) => beginHttp1(this.#requests, connection, exchange),
      onRejected: (head: RejectedHead) => reportRejected(this.#requests, connection, head),
      onFault: this.#options.onFault,
    };
    client.beginHttp1(this.#http1.serve(socket, receiver), connection);
  }

  #serveHttp2(client: ClientConnection, socket: Socket, connection: Connection): void {
    const { clock, onFault } = this.#options;
    const served = this.#http2.serve<Http2Head>(socket, {
      readHead: (head: Http2RequestHead) => readHttp2(this.#requests, connection, head),
      onRequest: (exchange: Http2Exchange, head: Http2Head) => {
        if (!connection.ended.isTooGreedy(clock.monotonicMs())) {
          return beginHttp2(this.#requests, connection, exchange, head);
        }
        // All that the connection holds is free again, and what it still sends is not parsed.
        served.closeForFlood("the connection sends requests while its memory is used up");
        return undefined;
      },
      onTooLarge: (message: string, fields: FieldList) => reportTooLarge(this.#requests, connection, message, fields),
      onFault,
    });
    client.beginHttp2(served, connection);
  }

  /** @param socket as the kernel gave it, or that of TLS above. */
  #linesOf(socket: Socket): ConnectionLines | undefined {
    const { connectionLog } = this.#options;
    return connectionLog.of(socket) ?? connectionLog.of(this.#secured.get(peerOf(socket))?.client.socket ?? socket);
  }

  #track(socket: Socket): ClientConnection {
    const { clients, expectsProxyHeader: isReported } = this.#options;
    const client = clients.add(socket, peerAddress(socket), { isTls: this.#tls !== undefined, isReported });
    this.#sockets.set(socket, client);
    this.#options.connectionLog.opened(socket, peerOf(socket));
    this.#options.onConnectionOpened();
    // A reset by the client; "close" follows.
    socket.on("error", ignore);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      clients.delete(client);
      this.#options.onConnectionClosed();
    });
    return client;
  }
}

/** The connection preface; three bytes decide, since no HTTP/1 method begins so. */
const http2Preface = "PRI";

function readPreface(bytes: Buffer): FirstBytes<boolean> {
  const start = bytes.toString("latin1", 0, http2Preface.length);
  const isIncomplete = start.length < http2Preface.length && http2Preface.startsWith(start);
  return isIncomplete ? undefined : { value: start === http2Preface, consumed: 0 };
}

/** Listener for "timeout" of a socket. One function for all, so that `setTimeout(0, destroySocket)` removes it. */
function destroySocket(this: Socket): void {
  this.destroy();
}

/** Unlike those of any other connection that is open. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress ?? ""} ${remotePort ?? ""}`;
}

function ignore(): void {
  // Nothing to do: "close" reports it.
}
