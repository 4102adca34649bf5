/** Sockets to endpoints, which are reset instead of closed where too many local ports are kept (ADR 65). */
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
  #isReset = false;
  /** Whether the port is counted as one that is kept. */
  #isKept = false;

  constructor(options: Pick<TcpNetConnectOpts, "allowHalfOpen" | "onread">, port: LocalPort) {
    super(options);
    this.#port = port;
  }

  /** Ends this side. */
  override _final(callback: (error?: Error | null) => void): void {
    if (this.#mustReset()) this.resetAndDestroy();
    super._final(callback);
  }

  override destroy(error?: Error): this {
    // A socket that has failed keeps no port.
    return error === undefined && this.#mustReset() ? this.resetAndDestroy() : super.destroy(error);
  }

  override resetAndDestroy(): this {
    this.#isReset = true;
    return super.resetAndDestroy();
  }

  /**
   * Decides before this side ends first, and counts the port if it is kept. A socket whose end is being sent cannot be
   * reset any more, and is counted.
   */
  #mustReset(): boolean {
    if (this.#isReset || this.#isKept || this.destroyed || this.pending || this.readableEnded) return false;
    const { ports, use } = this.#port;
    if (ports.mustReset(use)) return true;
    this.#isKept = true;
    ports.add(use);
    return false;
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
    else ports.add(use);
  });
}
