/** Sockets to endpoints, which are reset instead of closed where too many local ports are kept (`local-ports.ts`). */
import { Socket, type TcpNetConnectOpts } from "node:net";
import type { TLSSocket } from "node:tls";
import type { LocalPorts, PortUse } from "./local-ports.ts";

/** The port of a socket. */
export interface LocalPort {
  readonly ports: LocalPorts;
  /** Read when the socket is closed. */
  readonly use: PortUse;
}

/** A socket without TLS. */
export class EndpointSocket extends Socket {
  readonly #port: LocalPort;
  #isConnected = false;
  #isReset = false;
  /** Whether this side ended while the endpoint had not. */
  #hasEndedFirst = false;

  constructor(options: Pick<TcpNetConnectOpts, "allowHalfOpen" | "onread">, port: LocalPort) {
    super(options);
    this.#port = port;
    this.once("connect", () => (this.#isConnected = true));
    this.once("finish", () => (this.#hasEndedFirst = !this.readableEnded));
    this.once("close", () => {
      const hasClosedFirst = this.writableFinished ? this.#hasEndedFirst : !this.readableEnded;
      if (this.#isConnected && !this.#isReset && hasClosedFirst) port.ports.add(port.use);
    });
  }

  /** Ends this side. */
  override _final(callback: (error?: Error | null) => void): void {
    if (this.#mustReset) this.resetAndDestroy();
    super._final(callback);
  }

  override destroy(error?: Error): this {
    // One whose end is being sent cannot be reset.
    const isEnding = this.writableEnded && !this.writableFinished;
    return !isEnding && this.#mustReset ? this.resetAndDestroy() : super.destroy(error);
  }

  override resetAndDestroy(): this {
    this.#isReset = true;
    return super.resetAndDestroy();
  }

  get #mustReset(): boolean {
    if (this.#isReset || this.destroyed || this.pending || this.readableEnded) return false;
    return this.#port.ports.mustReset(this.#port.use);
  }
}

/**
 * Counts the port of a socket that ends before the endpoint, or closes it. A TLS socket cannot be reset. Where it is
 * closed as a whole, the closing alert of the endpoint gets a reset, so that no port is kept.
 */
export function countHalfClosed(socket: TLSSocket, { ports, use }: LocalPort): void {
  socket.once("finish", () => {
    if (socket.readableEnded) return;
    if (ports.mustReset(use)) socket.destroy();
    else socket.once("close", () => ports.add(use));
  });
}
