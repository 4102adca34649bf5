/**
 * The sockets of a worker to backends, by their ends. A connection or a datagram that comes from one of them was sent
 * by the worker itself: a route leads back to the gateway, and each pass would open another socket. Other workers have
 * their own, so that a loop ends where one of them meets itself. What passes other machines, or an address translation,
 * is not recognized.
 */
import type { Socket } from "node:net";
import { shortAddress } from "@gatewayproxy/runtime/ip-address";

/** An address and a port, as node gives them. */
export interface SocketEnd {
  readonly address: string | undefined;
  readonly port: number | undefined;
}

/** The sockets that are open. */
export class OwnSockets {
  readonly #connections = new Set<string>();
  readonly #sessions = new Set<string>();

  /**
   * Adds a socket that is being connected, until it is closed. It has its local end before it is connected, and its
   * other end may be accepted first.
   */
  addConnection(socket: Socket, remote: SocketEnd): void {
    const key = `${textOf(localEnd(socket))} ${textOf(remote)}`;
    this.#connections.add(key);
    socket.once("close", () => this.#connections.delete(key));
  }

  /** Whether an accepted socket is the other end of one of these. */
  isOtherEnd(accepted: Socket): boolean {
    if (this.#connections.size === 0) return false;
    return this.#connections.has(`${textOf(remoteEnd(accepted))} ${textOf(localEnd(accepted))}`);
  }

  /** Adds the local end of the socket of a session. Returns a function that removes it. */
  addSession(local: SocketEnd): () => void {
    const key = textOf(local);
    this.#sessions.add(key);
    return () => void this.#sessions.delete(key);
  }

  /** Whether a datagram comes from the socket of a session. */
  hasSession(from: SocketEnd): boolean {
    return this.#sessions.size > 0 && this.#sessions.has(textOf(from));
  }
}

function localEnd({ localAddress, localPort }: Socket): SocketEnd {
  return { address: localAddress, port: localPort };
}

function remoteEnd({ remoteAddress, remotePort }: Socket): SocketEnd {
  return { address: remoteAddress, port: remotePort };
}

/** An IPv6 socket shows an IPv4 address as a mapped one. */
function textOf({ address = "", port = 0 }: SocketEnd): string {
  return `${shortAddress(address) ?? address} ${port}`;
}
