/**
 * A budget for the memory that clients can cause: responses that they do not read, and calls that they leave open.
 * Beyond it, the connection with the most memory is closed, so that clients that read their responses keep their
 * connections.
 */

/** Approximate memory of an open call without its bytes. */
export const openCallBytes = 1_024;

/** A connection whose memory the budget bounds. */
export interface ChargedConnection {
  /** Closes the connection at once and frees its memory. */
  closeForMemory(reason: string): void;
}

/** The budget of one server, for all of its connections. */
export class ConnectionMemory {
  readonly #maxBytes: number;
  /** Bytes that each connection holds. Connections that hold none are absent. */
  readonly #bytesOf = new Map<ChargedConnection, number>();
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
  update(connection: ChargedConnection, bytes: number): void {
    const before = this.#bytesOf.get(connection) ?? 0;
    if (bytes === before) return;
    this.#bytes += bytes - before;
    if (bytes === 0) this.#bytesOf.delete(connection);
    else this.#bytesOf.set(connection, bytes);
    while (this.#bytes > this.#maxBytes) this.#endLargest();
  }

  #endLargest(): void {
    let largest: ChargedConnection | undefined;
    let largestBytes = 0;
    for (const [connection, bytes] of this.#bytesOf) {
      if (bytes <= largestBytes) continue;
      largest = connection;
      largestBytes = bytes;
    }
    if (largest === undefined) return;
    this.#bytesOf.delete(largest);
    this.#bytes -= largestBytes;
    largest.closeForMemory(
      `${largestBytes} bytes of unread responses and open calls, ${this.#maxBytes} are accepted of all clients`,
    );
  }
}
