/**
 * One budget for what the clients of a server make it hold: answers that they do not read, and calls that they leave open.
 * Beyond it the connection that holds most is ended, so that clients which read and finish keep theirs.
 */

/** What an open call takes beside its bytes, about. */
export const openCallBytes = 1_024;

export interface HoldingConnection {
  /** Ends at once and holds nothing any more. */
  giveUp(reason: string): void;
}

export class ConnectionMemory {
  readonly #maxBytes: number;
  /** What each connection holds; those that hold nothing are left out. */
  readonly #held = new Map<HoldingConnection, number>();
  #bytes = 0;

  /** @param maxBytes of all connections together */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** What all connections hold. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Tells what a connection holds now. May end connections, this one too. */
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
    largest.giveUp(`${most} bytes of unread answers and open calls, ${this.#maxBytes} are accepted of all clients`);
  }
}
