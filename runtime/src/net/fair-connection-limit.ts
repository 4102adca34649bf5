/**
 * Bounds the connections of a server. Below the bound everyone may connect. At the bound, the network with the most
 * connections loses its newest one, or its next connection is rejected. A client that opens connections without end
 * therefore displaces its own connections, and others can still connect.
 */
import type { Socket } from "node:net";
import { networkOf } from "./ip-address.ts";

/** The length in bits of an IPv6 network: a client usually has a whole /64. */
const ipv6PrefixLength = 64;

/** The connections of a server, bounded, with a fair share for each network. */
export class FairConnectionLimit {
  readonly #max: number;
  /** Sockets by network, oldest first. */
  readonly #networks = new Map<string, Set<Socket>>();
  #count = 0;

  /** @param max the maximum number of connections at one time. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Counts a connection until it closes. Returns false if the connection is rejected; its socket is then destroyed. */
  accept(socket: Socket): boolean {
    // All clients of a Unix socket count as one network.
    const network = networkOf(socket.remoteAddress ?? "", ipv6PrefixLength);
    if (this.#count >= this.#max) {
      const own = this.#networks.get(network)?.size ?? 0;
      const largest = this.#largest();
      if (largest === undefined || largest.size <= own + 1) {
        socket.destroy();
        return false;
      }
      // The newest one: older connections are more likely to have requests in progress.
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
