/**
 * What becomes of single connections of clients, at debug: that they open, what their TLS handshake settles, that they
 * close and why. Whether the level is on is asked once for each connection, when it opens; of others nothing is kept.
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
  /** By the socket as the kernel gave it. */
  readonly #lines = new Map<Socket, ConnectionLines>();

  constructor(options: ConnectionLogOptions) {
    this.#options = options;
  }

  /**
   * @param socket as the kernel gave it.
   * @param peer as `Connection.peer`.
   */
  opened(socket: Socket, peer: string): void {
    if (!this.#options.log.isLevelEnabled("debug")) return;
    const lines = new ConnectionLines(this.#options, socket, peer);
    this.#lines.set(socket, lines);
    socket.once("close", () => this.#lines.delete(socket));
  }

  /** The proxy closes every connection when its requests have ended. */
  draining(): void {
    for (const lines of this.#lines.values()) lines.closing("the proxy shuts down, or the listener is gone");
  }

  /** The lines of a connection; undefined where it is not logged. @param socket as the kernel gave it. */
  of(socket: Socket): ConnectionLines | undefined {
    return this.#lines.get(socket);
  }
}

/** Of one connection. */
export class ConnectionLines {
  readonly #options: ConnectionLogOptions;
  readonly #peer: string;
  readonly #sinceMs: number;
  /** The first event. */
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

  /** The proxy is about to close it. */
  closing(reason: string): void {
    this.#reason ??= reason;
  }

  /** @param serverName that the client asked for; empty where it named none. */
  secured(socket: TLSSocket, serverName: string): void {
    this.#listen(socket);
    const protocol = socket.alpnProtocol === false ? undefined : socket.alpnProtocol;
    const settled = { version: socket.getProtocol(), cipher: socket.getCipher().name, protocol };
    const isResumed = socket.isSessionReused();
    this.#options.log.debug(this.#with({ serverName, ...settled, isResumed }), "TLS handshake done");
  }

  notSecured(reason: string): void {
    this.#options.log.debug(this.#with({ reason }), "TLS handshake failed");
    this.closing(`TLS handshake failed: ${reason}`);
  }

  #listen(socket: Socket): void {
    socket.once("end", () => this.closing("the client closed it"));
    socket.once("timeout", () => this.closing("nothing came in time"));
    socket.once("error", (error) => this.closing(error.message));
  }

  /** Besides these, what a line is about. */
  #with(fields: object): object {
    return { bind: this.#options.bind, peer: this.#peer, ...fields };
  }
}
