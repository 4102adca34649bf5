/** Counts of connections to a Redis, as envoyproxy/ratelimit counts those of its pool. */
export class ConnectionCounts {
  readonly #open = new Set<string>();
  #opened = 0;
  #closed = 0;

  /** Counts a connection that is ready for commands; `server` identifies it. */
  opened(server: string): void {
    if (this.#open.has(server)) return;
    this.#open.add(server);
    this.#opened++;
  }

  /** Counts a connection that is no longer ready, whichever side ended it. */
  closed(server: string): void {
    if (this.#open.delete(server)) this.#closed++;
  }

  /** Counts all connections as closed. */
  closedAll(): void {
    for (const server of this.#open) this.closed(server);
  }

  /** The number of open connections, and of those opened and closed since the start. */
  get counts() {
    return { active: this.#open.size, opened: this.#opened, closed: this.#closed };
  }
}
