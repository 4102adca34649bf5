/**
 * Logs single client connections at debug: when they open, the result of the TLS handshake, when they close, and why.
 * The log level is checked once for each connection, when it opens. A connection that is not logged uses no memory
 * here.
 */
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";

/** The logger, and the bind that its lines name. */
export interface ConnectionLogOptions {
  /** Receives the lines at debug; other levels are never written. */
  readonly log: Logger;
  /** Measures the duration of a connection. */
  readonly clock: Clock;
  /** The bind that accepts the connections, such as `*:8080`. */
  readonly bind: string;
}

/** The log of the connections of one bind. */
export class ConnectionLog {
  readonly #options: ConnectionLogOptions;
  /** By the accepted socket, below TLS. */
  readonly #lines = new Map<Socket, ConnectionLines>();

  constructor(options: ConnectionLogOptions) {
    this.#options = options;
  }

  /**
   * Logs that a connection has opened, if the level is debug or lower.
   *
   * @param socket the accepted socket, below TLS.
   * @param peer as `Connection.peer`.
   */
  opened(socket: Socket, peer: string): void {
    if (!this.#options.log.isLevelEnabled("debug")) return;
    const lines = new ConnectionLines(this.#options, socket, peer);
    this.#lines.set(socket, lines);
    socket.once("close", () => this.#lines.delete(socket));
  }

  /** Sets the reason for which the open connections will close: the proxy drains the bind. */
  draining(): void {
    for (const lines of this.#lines.values()) lines.closing("the proxy shuts down, or the listener is gone");
  }

  /** Returns the log of a connection; undefined if it is not logged. @param socket the accepted socket, below TLS. */
  of(socket: Socket): ConnectionLines | undefined {
    return this.#lines.get(socket);
  }
}

/** Writes the log lines of one connection. */
export class ConnectionLines {
  readonly #options: ConnectionLogOptions;
  readonly #peer: string;
  readonly #sinceMs: number;
  /** Why the connection closes. The first reason counts. */
  #reason: string | undefined;

  constructor(options: ConnectionLogOptions, socket: Socket, peer: string) {
    this.#options = options;
    this.#peer = peer;
    this.#sinceMs = options.clock.monotonicMs();
    options.log.debug(this.#with({}), "connection opened");
    this.#listen(socket);
    socket.once("close", () => {
      const durationMs = Math.round(options.clock.monotonicMs() - this.#sinceMs);
      const reason = this.#reason ?? "the proxy closed it";
      const bytes = { bytesRead: socket.bytesRead, bytesWritten: socket.bytesWritten };
      options.log.debug(this.#with({ reason, durationMs, ...bytes }), "connection closed");
    });
  }

  /** Sets the reason for which the connection closes, unless there is one. */
  closing(reason: string): void {
    this.#reason ??= reason;
  }

  /** Logs that the handshake is done. @param serverName the SNI of the client; empty if it sent none. */
  secured(socket: TLSSocket, serverName: string): void {
    this.#listen(socket);
    const protocol = socket.alpnProtocol === false ? undefined : socket.alpnProtocol;
    const settled = { version: socket.getProtocol(), cipher: socket.getCipher().name, protocol };
    const isResumed = socket.isSessionReused();
    this.#options.log.debug(this.#with({ serverName, ...settled, isResumed }), "TLS handshake done");
  }

  /** Logs that the handshake has failed. */
  notSecured(reason: string): void {
    this.#options.log.debug(this.#with({ reason }), "TLS handshake failed");
    this.closing(`TLS handshake failed: ${reason}`);
  }

  #listen(socket: Socket): void {
    socket.once("end", () => this.closing("the client closed it"));
    socket.once("timeout", () => this.closing("nothing came in time"));
    socket.once("error", (error) => this.closing(error.message));
  }

  /** Adds the bind and the peer to the fields of a line. */
  #with(fields: object): object {
    return { bind: this.#options.bind, peer: this.#peer, ...fields };
  }
}
