/**
 * The sockets of this worker to all endpoints, up to a maximum. Where it is reached, idle connections are closed first,
 * then the client with the most calls loses its newest one, so that a client with fewer can reach any endpoint. Pools
 * that get no socket wait for one in turn.
 */
import type { ConnectionCall } from "./connection.ts";

/** A pool, which holds sockets and waits for them. */
export interface SocketHolder {
  /** Closes a connection without a call. @returns whether there was one. */
  closeIdleConnection(): boolean;
  /** The calls with a connection of their own, of HTTP/1.1. */
  readonly ownCalls: readonly ConnectionCall[];
  /** Whether a call waits for a connection. */
  readonly hasPending: boolean;
  /** Sends the next pending call, if there is a connection for it. */
  serveNext(): void;
}

/** The sockets of one worker. */
export class EndpointSockets {
  readonly #max: number;
  readonly #holders = new Map<SocketHolder, number>();
  readonly #waiting = new Set<SocketHolder>();
  #open = 0;
  /** Sockets change hands: what is closed is not given to another pool. */
  #isAssigning = false;

  /** @param max default: no maximum. */
  constructor(max = Number.POSITIVE_INFINITY) {
    this.#max = max;
  }

  /** Whether all sockets are taken. */
  get isFull(): boolean {
    return this.#open >= this.#max;
  }

  /** Whether a pool waits for a socket. */
  get hasWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** Takes a socket for a call of `client`. @returns false if there is none, and `holder` waits. */
  take(holder: SocketHolder, client: string | undefined): boolean {
    if (this.isFull && !this.#makeRoom(client)) {
      this.#waiting.add(holder);
      return false;
    }
    this.#open++;
    this.#holders.set(holder, (this.#holders.get(holder) ?? 0) + 1);
    return true;
  }

  /** A connection of `holder` has ended. */
  release(holder: SocketHolder): void {
    this.#open--;
    const left = (this.#holders.get(holder) ?? 0) - 1;
    if (left > 0) this.#holders.set(holder, left);
    else this.#holders.delete(holder);
    this.serveWaiting();
  }

  /** Must be called when `holder` has no pending call any more. */
  leave(holder: SocketHolder): void {
    this.#waiting.delete(holder);
  }

  /** Serves the pools that wait, in turn, after a connection has ended or become idle. */
  serveWaiting(): void {
    if (this.#waiting.size === 0 || this.#isAssigning) return;
    this.#isAssigning = true;
    try {
      for (const holder of [...this.#waiting]) {
        this.#waiting.delete(holder);
        holder.serveNext();
        // It has got none.
        if (this.#waiting.has(holder)) break;
        if (holder.hasPending) this.#waiting.add(holder);
      }
    } finally {
      this.#isAssigning = false;
    }
  }

  /** Serves the next call of `holder`, whose connection may have become free. */
  serve(holder: SocketHolder): void {
    if (!this.#isAssigning) holder.serveNext();
    else if (holder.hasPending) this.#waiting.add(holder);
  }

  #makeRoom(client: string | undefined): boolean {
    const wasAssigning = this.#isAssigning;
    this.#isAssigning = true;
    try {
      for (const holder of this.#holders.keys()) if (holder.closeIdleConnection()) return true;
      return this.#displaceFor(client);
    } finally {
      this.#isAssigning = wasAssigning;
    }
  }

  #displaceFor(client: string | undefined): boolean {
    const all = [...this.#holders.keys()].flatMap(({ ownCalls }) => ownCalls);
    const calls = Map.groupBy(all, (call) => call.client);
    let most: readonly ConnectionCall[] = [];
    for (const own of calls.values()) if (own.length > most.length) most = own;
    const [first, ...others] = most;
    if (first === undefined || most.length <= (calls.get(client)?.length ?? 0) + 1) return false;
    const newest = others.reduce((one, other) => (other.sentMs >= one.sentMs ? other : one), first);
    // Counted already, so that nothing else takes the place.
    this.#open++;
    newest.displace({ kind: "overloaded", message: "a client with fewer calls needs a connection" });
    this.#open--;
    return !this.isFull;
  }
}
