/**
 * Bounds the connections of a server. Below the bound everyone may connect. At the bound, the network with the most
 * connections loses its newest one, or its next connection is rejected. A client that opens connections without end
 * therefore displaces its own connections, and others can still connect. If no network has more than one connection, a
 * further network displaces the oldest idle one.
 */
import type { Socket } from "node:net";
import { networkOf } from "./ip-address.ts";

/** The length in bits of an IPv6 network: a client usually has a whole /64. */
const ipv6PrefixLength = 64;

/** The connections of a server, bounded, with a fair share for each network. */
export class FairConnectionLimit {
  readonly #max: number;
  readonly #isIdle: (socket: Socket) => boolean;
  /** Sockets with the network of each, oldest first. */
  readonly #all = new Map<Socket, string>();
  /** Sockets by network, oldest first. */
  readonly #networks = new Map<string, Set<Socket>>();

  /**
   * @param max the maximum number of connections at one time.
   * @param isIdle whether a connection has no complete request. By default no connection is idle.
   */
  constructor(max: number, isIdle: (socket: Socket) => boolean = () => false) {
    this.#max = max;
    this.#isIdle = isIdle;
  }

  /** Counts a connection until it closes. Returns false if the connection is rejected; its socket is then destroyed. */
  accept(socket: Socket): boolean {
    // All clients of a Unix socket count as one network.
    const network = networkOf(socket.remoteAddress ?? "", ipv6PrefixLength);
    if (this.#all.size >= this.#max) {
      const displaced = this.#displacedBy(network);
      if (displaced === undefined) {
        socket.destroy();
        return false;
      }
      this.#remove(displaced);
      displaced.destroy();
    }
    this.#all.set(socket, network);
    const sockets = this.#networks.get(network) ?? new Set();
    this.#networks.set(network, sockets.add(socket));
    socket.once("close", () => this.#remove(socket));
    return true;
  }

  /** Returns the connection that a new one of a network replaces, if there is one. */
  #displacedBy(network: string): Socket | undefined {
    const own = this.#networks.get(network)?.size ?? 0;
    const largest = this.#largest();
    // The newest one: older connections are more likely to have requests in progress.
    if (largest !== undefined && largest.size > own + 1) return [...largest].at(-1);
    return own > 0 ? undefined : [...this.#all.keys()].find(this.#isIdle);
  }

  #remove(socket: Socket): void {
    const network = this.#all.get(socket);
    if (network === undefined) return;
    this.#all.delete(socket);
    const sockets = this.#networks.get(network);
    sockets?.delete(socket);
    if (sockets?.size === 0) this.#networks.delete(network);
  }

  #largest(): Set<Socket> | undefined {
    let largest: Set<Socket> | undefined;
    for (const sockets of this.#networks.values()) {
      if (sockets.size > (largest?.size ?? 0)) largest = sockets;
    }
    return largest;
  }
}
