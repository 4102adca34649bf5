/**
 * Bounds the connections of a server. While there is room everyone connects as often as they like; when there is none, the
 * network with the most connections gives one up, or is refused another. So a client that opens connections without end
 * displaces its own, and others still connect.
 */
import type { Socket } from "node:net";
import { networkOf } from "./ip-address.ts";

/** An IPv6 client has at least a /64 to itself. */
const ipv6PrefixLength = 64;

export class ConnectionShares {
  readonly #max: number;
  /** By network, in the order in which they connected. */
  readonly #networks = new Map<string, Set<Socket>>();
  #count = 0;

  /** @param max connections at one time */
  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a connection until it closes. `false`: it is refused, and the socket is destroyed. */
  admit(socket: Socket): boolean {
    // All clients of a unix socket are one.
    const network = networkOf(socket.remoteAddress ?? "", ipv6PrefixLength);
    if (this.#count >= this.#max) {
      const own = this.#networks.get(network)?.size ?? 0;
      const largest = this.#largest();
      if (largest === undefined || largest.size <= own + 1) {
        socket.destroy();
        return false;
      }
      // The newest: the older ones are more likely at work.
      const newest = [...largest].at(-1);
      if (newest !== undefined) {
        this.#remove(newest, largest);
        newest.destroy();
      }
    }
    this.#add(socket, network);
    return true;
  }

  #add(socket: Socket, network: string): void {
    const sockets = this.#networks.get(network) ?? new Set();
    this.#networks.set(network, sockets.add(socket));
    this.#count++;
    socket.once("close", () => {
      this.#remove(socket, sockets);
      if (sockets.size === 0 && this.#networks.get(network) === sockets) this.#networks.delete(network);
    });
  }

  #remove(socket: Socket, sockets: Set<Socket>): void {
    if (sockets.delete(socket)) this.#count--;
  }

  #largest(): Set<Socket> | undefined {
    let largest: Set<Socket> | undefined;
    for (const sockets of this.#networks.values()) {
      if (sockets.size > (largest?.size ?? 0)) largest = sockets;
    }
    return largest;
  }
}
