/**
 * The sockets of this worker to all endpoints, up to a maximum. Where it is reached, idle connections are closed first,
 * then the client with the largest share loses its newest connection, so that a client with a smaller share can reach
 * any endpoint. Pools that get no socket wait for one in turn.
 */
import type { Connection } from "./connection.ts";
import { callsToDisplace, displace, type Shares, sharesOf } from "./connection-shares.ts";

/** A pool, which holds sockets and waits for them. */
export interface SocketHolder {
  /** Closes a connection without a call. @returns whether there was one. */
  closeIdleConnection(): boolean;
  /** The connections with calls. */
  readonly busyConnections: readonly Connection[];
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
  /** Undefined once a socket was taken or has ended: to compute them takes a while. */
  #shares: Shares | undefined;
  #isDisplacing = false;
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
    this.#shares = undefined;
    this.#holders.set(holder, (this.#holders.get(holder) ?? 0) + 1);
    return true;
  }

  /** A connection of `holder` has ended. */
  release(holder: SocketHolder): void {
    this.#open--;
    this.#shares = undefined;
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
      return this.#closeIdle() || this.#displaceFor(client);
    } finally {
      this.#isAssigning = wasAssigning;
    }
  }

  #closeIdle(): boolean {
    for (const holder of this.#holders.keys()) if (holder.closeIdleConnection()) return true;
    return false;
  }

  /** A call that is displaced may be sent to another provider at once, and displaces none. */
  #displaceFor(client: string | undefined): boolean {
    if (this.#isDisplacing) return false;
    const shares = (this.#shares ??= sharesOf(this.#busyConnections()));
    const calls = callsToDisplace(this.#busyConnections(), shares, client);
    if (calls.length === 0) return false;
    this.#isDisplacing = true;
    // Counted already, so that nothing else takes the place.
    this.#open++;
    for (const call of calls) displace(call);
    this.#open--;
    this.#isDisplacing = false;
    // Calls may have ended since.
    this.#shares = undefined;
    return !this.isFull || this.#closeIdle();
  }

  *#busyConnections(): Iterable<Connection> {
    for (const holder of this.#holders.keys()) yield* holder.busyConnections;
  }
}
