/** Connections to a Redis, as the reference counts those of its pool. */
export class ConnectionCounts {
  readonly #open = new Set<string>();
  #opened = 0;
  #closed = 0;

  /** A connection is ready for commands; `server` tells it from the others. */
  opened(server: string): void {
    if (this.#open.has(server)) return;
    this.#open.add(server);
    this.#opened++;
  }

  /** A connection is ready no more, whoever ended it. */
  closed(server: string): void {
    if (this.#open.delete(server)) this.#closed++;
  }

  /** All of them were given up. */
  closedAll(): void {
    for (const server of this.#open) this.closed(server);
  }

  /** How many are open now, and were opened and closed since the start. */
  get counts() {
    return { active: this.#open.size, opened: this.#opened, closed: this.#closed };
  }
}
