/**
 * One port and its connections. The protocol of a connection is determined once, at its beginning:
 *
 * 1. It reads a PROXY protocol header if a setting enables it.
 * 2. If the bind has TLS or TCP listeners, their receiver decides, by the server name of TLS, whether it relays the
 *   connection.
 * 3. It performs a TLS handshake if the listeners have TLS.
 * 4. It speaks HTTP/1.1 or HTTP/2. ALPN decides under TLS, else the first bytes decide (RFC 9113 §3.4: an HTTP/2 client
 *    begins with `PRI * HTTP/2.0`).
 *
 * `setTls` and `setStreams` change the settings of later connections. Open connections are not affected.
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
import { boundKeyUpdates } from "@gatewayproxy/http/key-updates";
import type { FieldList } from "@gatewayproxy/http/ports";
import type { RequestTurns } from "@gatewayproxy/http/request-turns";
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
import { type ClientHello, type NoClientHello, readClientHello } from "./client-hello.ts";
import { readProxyHeader, type ProxyHeader } from "./proxy-protocol.ts";
import type { HandshakeTurns, WaitingHandshake } from "./handshake-turns.ts";
import type { SecuredStream, StreamReceiver } from "./stream-receiver.ts";
import { type TlsListener, TlsTermination } from "./tls-termination.ts";

/** The socket of a bind, and the receiver of its requests. */
export interface BindOptions extends RequestReceiver {
  /** IP address to listen on; absent: every address of the machine. */
  readonly host: string | undefined;
  /** TCP port; 0 takes a free one, which `BindServer.port` returns. */
  readonly port: number;
  /** Whether several sockets share the port. The kernel distributes connections among them. */
  readonly reusePort: boolean;
  /**
   * The number of sockets of this server. libuv accepts one connection of each in a turn of the event loop, so that
   * those of hundreds of clients wait for hundreds of turns at a single one. More than one need `reusePort`.
   */
  readonly listeningSockets: number;
  /** Times rejected requests and floods of small frames. */
  readonly clock: Clock;
  /** Whether every connection begins with a PROXY protocol header. One that does not is closed. */
  readonly expectsProxyHeader: boolean;
  /** The protocols to which a request may switch. */
  readonly upgradeProtocols: UpgradeProtocols;
  /** How paths and header names of requests are normalized or rejected. */
  readonly rules: RequestRules;
  /** Counts the memory of the connections, and closes some beyond its bounds. */
  readonly clients: ClientConnections;
  /** Bounds the requests that begin in a turn of the event loop, of all binds. */
  readonly turns: RequestTurns;
  /** Bounds the TLS handshakes that begin in a turn of the event loop, of all binds. */
  readonly handshakes: HandshakeTurns;
  /** Logs connections, at debug. */
  readonly connectionLog: ConnectionLog;
  /** Called for an internal error that has ended a connection, or a request before it began. */
  readonly onFault: (error: unknown) => void;
  /** Called once for each accepted connection, before its first byte is read. */
  readonly onConnectionOpened: () => void;
  /** Called once for each accepted connection, when its socket is closed. */
  readonly onConnectionClosed: () => void;
}

/** Time for the first byte of a connection. The connection is closed after it. */
const firstByteTimeoutMs = 60_000;
/**
 * Time for a whole PROXY protocol header, for a whole ClientHello, and until a handshake begins. It is that of a
 * handshake.
 */
const headerTimeoutMs = 10_000;
/**
 * Time without data after which the kernel sends keep-alive probes. Without them, a connection whose peer disappeared
 * would stay open for ever.
 */
const keepAliveProbeMs = 60_000;

/** A connection, for operators. */
export interface OpenConnection {
  /** As `Connection.peer`. */
  readonly peer: string;
  /** When it was accepted; monotonic. */
  readonly sinceMs: number;
}

interface SecuredConnection {
  readonly client: ClientConnection;
  readonly handshake: WaitingHandshake;
  /** As `Connection.sourceAddress`. */
  readonly sourceAddress: string;
  /** Receives the result of the handshake; undefined for HTTP. */
  readonly stream: SecuredStream | undefined;
}

/** A handshake of a bind. */
class Handshake implements WaitingHandshake {
  readonly client: string;
  isCostlyLater: boolean;
  hasBegun = false;
  cancelTimeout: (() => void) | undefined;
  readonly #actions: Pick<WaitingHandshake, "begin" | "close">;

  /** @param asksCertificate whether the client is asked for a certificate. */
  constructor(client: string, asksCertificate: boolean, actions: Pick<WaitingHandshake, "begin" | "close">) {
    this.client = client;
    this.isCostlyLater = asksCertificate;
    this.#actions = actions;
  }

  /** Sets what the first message says. What is wrong with it may be so for us only, and OpenSSL may continue. */
  read(hello: ClientHello | NoClientHello): void {
    this.isCostlyLater ||= hello.kind === "invalid" || hello.isRetried;
  }

  begin(): void {
    this.hasBegun = true;
    this.cancelTimeout?.();
    this.#actions.begin();
  }

  close(): void {
    this.#actions.close();
  }
}

/** Bounds of the heads and trailers of HTTP/1. */
const http1Limits = {
  headBytes: maxHeadBytes,
  trailerBytes: maxHeadBytes,
  fields: maxHeaderFields,
  target: maxTargetLength,
};

/** Maximum number of open streams of an HTTP/2 connection. */
const maxStreams = 100;

/** Bounds of HTTP/2 connections. */
const http2Limits: Http2Limits = {
  ...defaultHttp2Limits,
  maxConcurrentStreams: maxStreams,
  maxHeaderListBytes: maxHeadBytes,
  maxTrailers: maxHeaderFields,
  // Each stream may buffer 64 KiB for a slow client, and the part of a body that exceeds them.
  maxWaitingBytes: 32 * 1024 * 1024,
  allowsConnect: true,
  idleTimeoutMs: 300_000,
  // The work for a frame hardly depends on its length, so only frames that are shorter than this are limited.
  smallFrames: { bytes: 64, burst: 10_000, perSecond: 5_000 },
  /**
   * A browser that leaves a page resets all of its streams. A client that opens streams only to reset them causes work
   * for nothing (CVE-2023-44487).
   */
  resets: { burst: 10 * maxStreams, perSecond: maxStreams },
};

/** A port with its connections. `open` creates it. A shutdown calls `leave`, `drain` and `destroy`. */
export class BindServer {
  readonly #options: BindOptions;
  readonly #servers: readonly Server[];
  readonly #http1: Http1Server;
  readonly #http2: Http2Server;
  readonly #requests: ClientRequestOptions;
  /** By the accepted socket, below TLS. */
  readonly #sockets = new Map<Socket, ClientConnection>();
  /**
   * The connections with TLS, from the start of their handshakes, by the addresses and ports of both ends (`pairOf`).
   */
  readonly #secured = new Map<string, SecuredConnection>();
  #tlsListeners: readonly TlsListener[] = [];
  #tls: TlsTermination | undefined;
  /** Undefined if the bind has HTTP listeners only. */
  #streams: StreamReceiver | undefined;
  #streamTlsListeners: readonly TlsListener[] = [];
  #streamTls: TlsTermination | undefined;

  private constructor(options: BindOptions) {
    const { onRequest, onRejected, rules, upgradeProtocols, clock, clients, turns } = options;
    const onParsed = (): void => clients.countRequest();
    this.#options = options;
    this.#http1 = new Http1Server({ limits: http1Limits, clock, turns });
    this.#http2 = new Http2Server({ limits: http2Limits, clock, turns });
    this.#requests = { onRequest, onRejected, onParsed, rules, upgradeProtocols };
    // After a switch of protocols, each side may end before the other.
    const socketOptions = {
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: keepAliveProbeMs,
    };
    this.#servers = Array.from({ length: options.listeningSockets }, () =>
      createServer(socketOptions, (socket) => this.#guard(socket, () => this.#accept(socket))),
    );
  }

  /**
   * Creates a server and resolves when it listens. Rejects with Node's error (`EADDRINUSE`, `EACCES`, …), or with the
   * error of `setTls`.
   *
   * @param tls as for `setTls`.
   * @param streams as for `setStreams`.
   */
  static async open(options: BindOptions, tls: readonly TlsListener[], streams?: StreamReceiver): Promise<BindServer> {
    const server = new BindServer(options);
    server.setTls(tls);
    server.setStreams(streams);
    try {
      for (const each of server.#servers) await server.#listen(each);
    } catch (error) {
      for (const each of server.#servers) each.close();
      throw error;
    }
    return server;
  }

  async #listen(server: Server): Promise<void> {
    const { host, reusePort } = this.#options;
    // A free port is chosen for the first socket.
    const { port } = this;
    const address = host === undefined ? { port, reusePort } : { host, port, reusePort };
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(address, () => {
        server.off("error", reject);
        resolve();
      });
    });
  }

  /** The port on which the server listens, also if the options have port 0. */
  get port(): number {
    const address = this.#servers[0]?.address();
    return typeof address === "object" && address !== null ? address.port : this.#options.port;
  }

  /**
   * Sets the TLS listeners of new connections. Without listeners, new connections are plain text. Throws, and changes
   * nothing, if OpenSSL rejects the settings of a listener.
   */
  setTls(listeners: readonly TlsListener[]): void {
    // A new termination has new keys for session tickets, and clients could not resume their sessions.
    if (isDeepStrictEqual(listeners, this.#tlsListeners)) return;
    this.#tls = listeners.length === 0 ? undefined : this.#terminationOf(listeners, "alpn");
    this.#tlsListeners = listeners;
  }

  /**
   * Sets the receiver of new connections at TLS and TCP listeners. Undefined: all connections are HTTP. Throws, and
   * changes nothing, if OpenSSL rejects the settings of a listener.
   */
  setStreams(receiver: StreamReceiver | undefined): void {
    const listeners = receiver?.terminated ?? [];
    if (!isDeepStrictEqual(listeners, this.#streamTlsListeners)) {
      this.#streamTls = listeners.length === 0 ? undefined : this.#terminationOf(listeners, "noAlpn");
      this.#streamTlsListeners = listeners;
    }
    this.#streams = receiver;
  }

  #terminationOf(listeners: readonly TlsListener[], alpn: "alpn" | "noAlpn"): TlsTermination {
    const onSecure = (socket: TLSSocket, session: TlsSession): void =>
      this.#guard(socket, () => this.#serveSecure(socket, session));
    const onRejected = (socket: TLSSocket, reason: string): void => {
      this.#linesOf(socket)?.notSecured(reason);
      this.#secured.get(pairOf(socket))?.stream?.onRejected(reason);
    };
    const { onFault, handshakes } = this.#options;
    const onChosen = (sign: () => void): void => handshakes.measure(sign);
    return new TlsTermination(listeners, { onSecure, onRejected, onFault, onChosen }, alpn);
  }

  /** Returns the open connections, the oldest first. */
  connections(): readonly OpenConnection[] {
    return Array.from(this.#sockets, ([socket, { sinceMs }]) => ({ peer: peerOf(socket), sinceMs }));
  }

  /**
   * Asks clients to close their connections: with the next response over HTTP/1.1, immediately over HTTP/2. The server
   * still accepts connections and requests. Idle connections stay open, because a client may just have sent a request.
   */
  leave(): void {
    this.#http1.leave();
    this.#http2.leave();
  }

  /**
   * Accepts no new connections, closes idle ones, and asks the clients of the others to close them. Resolves when the
   * last connection is closed.
   */
  drain(): Promise<void> {
    this.#options.connectionLog.draining();
    const closed = Promise.all(
      this.#servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))),
    );
    this.#http1.drain();
    this.#http2.drain();
    return closed.then(() => {
      this.#http1.close();
      this.#http2.close();
    });
  }

  /** Closes all connections at once, and ends the requests in progress. */
  destroy(): void {
    for (const socket of this.#sockets.keys()) socket.destroy();
  }

  /** Closes the connection if `action` throws. */
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
    // `#track` has closed it: there were too many.
    if (socket.destroyed) return;
    socket.setTimeout(firstByteTimeoutMs, destroySocket);
    // A client that ends its side before the first request expects no response. The same holds for HTTP/2 at any time.
    socket.allowHalfOpen = false;
    if (!this.#options.expectsProxyHeader) {
      this.#begin(client, undefined);
      return;
    }
    const cancel = this.#closeAfter(headerTimeoutMs, socket, "no whole PROXY protocol header came in time");
    const begin = (header: ProxyHeader): void => {
      cancel();
      if (header.kind === "invalid") {
        this.#linesOf(socket)?.closing("it did not begin with a PROXY protocol header");
        socket.destroy();
      } else {
        this.#begin(client, header.sourceAddress);
      }
    };
    readFirstBytes(socket, readProxyHeader, begin, (error) => this.#fail(socket, error));
  }

  /** @param headerAddress the client's address in the PROXY protocol header; undefined if it is the peer's. */
  #begin(client: ClientConnection, headerAddress: string | undefined): void {
    const { socket } = client;
    if (this.#options.expectsProxyHeader) this.#options.clients.identify(client, headerAddress ?? peerAddress(socket));
    if (socket.destroyed) return;
    const sourceAddress = headerAddress ?? peerAddress(socket);
    const streams = this.#streams;
    if (streams === undefined) this.#beginHttp(client, sourceAddress, undefined);
    else if (streams.readsHello) this.#readHello(client, (hello) => this.#offer(client, sourceAddress, streams, hello));
    else this.#offer(client, sourceAddress, streams, undefined);
  }

  /** Closes a connection after a time. @returns a function that cancels that. */
  #closeAfter(ms: number, socket: Socket, reason: string): () => void {
    const timer = this.#options.clock.setTimer(ms, () => {
      this.#linesOf(socket)?.closing(reason);
      socket.destroy();
    });
    const onClose = (): void => timer.cancel();
    socket.once("close", onClose);
    return () => {
      socket.off("close", onClose);
      timer.cancel();
    };
  }

  /** @param done called with the whole ClientHello, which is not consumed. The socket is paused. */
  #readHello({ socket }: ClientConnection, done: (hello: ClientHello | NoClientHello) => void): void {
    const cancel = this.#closeAfter(headerTimeoutMs, socket, "no ClientHello came in time");
    const onHello = (hello: ClientHello | NoClientHello): void => {
      cancel();
      done(hello);
    };
    readFirstBytes(socket, readClientHello, onHello, (error) => this.#fail(socket, error));
  }

  /** Serves a connection as its receiver decides. */
  #offer(
    client: ClientConnection,
    sourceAddress: string,
    streams: StreamReceiver,
    hello: ClientHello | NoClientHello | undefined,
  ): void {
    const { socket } = client;
    const peer = peerOf(socket);
    socket.setTimeout(0, destroySocket);
    // Each side of a relayed connection may end before the other.
    socket.allowHalfOpen = true;
    const decision = streams.onStream({ client, sourceAddress, peer, hello });
    if (decision === "taken") return;
    if (decision === "http") {
      socket.allowHalfOpen = false;
      this.#beginHttp(client, sourceAddress, hello);
    } else if (hello === undefined || this.#streamTls === undefined) {
      throw new Error("a receiver has asked for TLS and has no listener with it");
    } else {
      this.#secure({ client, sourceAddress, stream: decision }, this.#streamTls, hello);
    }
  }

  /** @param hello undefined if it has not been read. */
  #beginHttp(client: ClientConnection, sourceAddress: string, hello: ClientHello | NoClientHello | undefined): void {
    const { socket } = client;
    const tls = this.#tls;
    if (tls === undefined) {
      this.#sniff(client, { sourceAddress, peer: peerOf(socket), tls: undefined, ended: new EndedRequests() });
    } else {
      this.#secure({ client, sourceAddress, stream: undefined }, tls, hello);
    }
  }

  /** Performs the handshake, in its turn. @param hello undefined if it has not been read. */
  #secure(
    accepted: Omit<SecuredConnection, "handshake">,
    tls: TlsTermination,
    hello: ClientHello | NoClientHello | undefined,
  ): void {
    const { client, stream } = accepted;
    const { socket } = client;
    const { handshakes, clients } = this.#options;
    const handshake = new Handshake(client.holder.client, tls.asksCertificate, {
      begin: () => {
        client.isBeforeHandshake = false;
        this.#secured.set(pair, secured);
        // The handshake has its own timeout.
        socket.setTimeout(0, destroySocket);
        this.#guard(socket, () => tls.terminate(socket));
      },
      close: () => {
        this.#linesOf(socket)?.closing("its TLS handshake stalled while others waited");
        socket.destroy();
      },
    });
    const pair = pairOf(socket);
    const secured = { ...accepted, handshake };
    socket.once("close", () => {
      handshakes.end(handshake);
      if (!handshake.hasBegun) stream?.onRejected("the connection was closed before the handshake");
      // A later connection may have the same port.
      if (this.#secured.get(pair) === secured) this.#secured.delete(pair);
    });
    if (hello === undefined && !tls.asksCertificate && handshakes.startUnread(handshake)) return;
    handshake.cancelTimeout = this.#closeAfter(headerTimeoutMs, socket, "its TLS handshake did not begin in time");
    const wait = (read: ClientHello | NoClientHello): void => {
      handshake.read(read);
      client.isBeforeHandshake = true;
      clients.watch(client);
      handshakes.start(handshake);
    };
    socket.setTimeout(0, destroySocket);
    if (hello === undefined) readFirstBytes(socket, readClientHello, wait, (error) => this.#fail(socket, error));
    else wait(hello);
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
    const secured = this.#secured.get(pairOf(socket));
    // The connection was closed while the handshake finished.
    if (secured === undefined) {
      socket.destroy();
    } else {
      const { client, sourceAddress, stream, handshake } = secured;
      this.#options.handshakes.end(handshake);
      boundKeyUpdates(socket, this.#options.clock);
      this.#options.connectionLog.of(client.socket)?.secured(socket, tls.serverName);
      if (stream !== undefined) {
        stream.onSecure(socket, tls.serverName);
        return;
      }
      const connection = { sourceAddress, peer: peerOf(socket), tls, ended: new EndedRequests() };
      this.#serveHttp(client, socket, connection, socket.alpnProtocol === "h2");
    }
  }

  /** @param socket from which HTTP is read: the accepted socket, or that of TLS. */
  #serveHttp(client: ClientConnection, socket: Socket, connection: Connection, isHttp2: boolean): void {
    if (isHttp2) {
      this.#serveHttp2(client, socket, connection);
      return;
    }
    // `Http1ServerConnection` closes the connection of a client that ends its side, except after a switch of protocols.
    socket.allowHalfOpen = true;
    const receiver = {
      client: client.holder.client,
      onRequest: (exchange: Http1Exchange) => beginHttp1(this.#requests, connection, exchange),
      onRejected: (head: RejectedHead) => reportRejected(this.#requests, connection, head),
      onHolding: () => this.#options.clients.watch(client),
      onFault: this.#options.onFault,
    };
    client.beginHttp1(this.#http1.serve(socket, receiver), connection);
  }

  #serveHttp2(client: ClientConnection, socket: Socket, connection: Connection): void {
    const { clients, clock, onFault } = this.#options;
    const served = this.#http2.serve<Http2Head>(socket, {
      client: client.holder.client,
      readHead: (head: Http2RequestHead) => readHttp2(this.#requests, connection, head),
      onRequest: (exchange: Http2Exchange, head: Http2Head) => {
        if (!connection.ended.isTooGreedy(clock.monotonicMs())) {
          return beginHttp2(this.#requests, connection, exchange, head);
        }
        // This frees all memory of the connection, and the bytes that it still sends are not parsed.
        served.closeForFlood("the connection sends requests while its memory is used up");
        return undefined;
      },
      onTooLarge: (message: string, fields: FieldList) => reportTooLarge(this.#requests, connection, message, fields),
      onHolding: () => clients.watch(client),
      onFault,
    });
    client.beginHttp2(served, connection);
  }

  /** @param socket the accepted socket, or that of TLS. */
  #linesOf(socket: Socket): ConnectionLines | undefined {
    const { connectionLog } = this.#options;
    return connectionLog.of(socket) ?? connectionLog.of(this.#secured.get(pairOf(socket))?.client.socket ?? socket);
  }

  #track(socket: Socket): ClientConnection {
    const { clients, expectsProxyHeader: isReported } = this.#options;
    const isTls = this.#tls !== undefined || this.#streamTls !== undefined;
    const isRelayed = this.#streams !== undefined;
    const client = clients.add(socket, peerAddress(socket), { isTls, isRelayed, isReported });
    this.#sockets.set(socket, client);
    this.#options.connectionLog.opened(socket, peerOf(socket));
    this.#options.onConnectionOpened();
    // The client has reset the connection; "close" follows.
    socket.on("error", ignore);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      clients.delete(client);
      this.#options.onConnectionClosed();
    });
    return client;
  }
}

/** The beginning of the HTTP/2 connection preface. Three bytes suffice: no HTTP/1 method begins with them. */
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

/** Returns the address and port of the peer. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress ?? ""} ${remotePort ?? ""}`;
}

/**
 * Returns the addresses and ports of both ends, which no other open connection has. The peer alone does not identify
 * one: a client may connect from one port to several addresses of the machine.
 */
function pairOf(socket: Socket): string {
  return `${peerOf(socket)} ${socket.localAddress ?? ""} ${socket.localPort ?? ""}`;
}

function ignore(): void {
  // Nothing to do: "close" reports it.
}
