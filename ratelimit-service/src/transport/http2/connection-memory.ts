/**
 * A budget for the memory that clients make a server hold: responses that they do not read, and calls that they leave
 * open. Beyond it the connection that holds most is closed, so that clients which read keep theirs.
 */

/** Approximate memory of an open call beside its bytes. */
export const openCallBytes = 1_024;

/** A connection as the budget knows it. */
export interface HoldingConnection {
  /** Closes the connection at once and frees its memory. */
  giveUp(reason: string): void;
}

/** The budget of one server, for all of its connections. */
export class ConnectionMemory {
  readonly #maxBytes: number;
  /** Bytes that each connection holds, without those that hold none. */
  readonly #held = new Map<HoldingConnection, number>();
  #bytes = 0;

  /** @param maxBytes bound for all connections together */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes that all connections hold. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Records the bytes that a connection holds now. May close connections, including this one. */
  update(connection: HoldingConnection, bytes: number): void {
    const before = this.#held.get(connection) ?? 0;
    if (bytes === before) return;
    this.#bytes += bytes - before;
    if (bytes === 0) this.#held.delete(connection);
    else this.#held.set(connection, bytes);
    while (this.#bytes > this.#maxBytes) this.#endLargest();
  }

  #endLargest(): void {
    let largest: HoldingConnection | undefined;
    let most = 0;
    for (const [connection, bytes] of this.#held) {
      if (bytes <= most) continue;
      largest = connection;
      most = bytes;
    }
    if (largest === undefined) return;
    this.#held.delete(largest);
    this.#bytes -= most;
    largest.giveUp(`${most} bytes of unread responses and open calls, ${this.#maxBytes} are accepted of all clients`);
  }
}
