/** Work that would delay other calls if it were done at once. */
export interface QueuedTurn {
  /** Does the work of one turn. */
  takeTurn(): void;
}

/** A queue of work that runs one piece per turn of the event loop, so that sockets are read in between. */
export class TurnQueue {
  readonly #waiting = new Set<QueuedTurn>();

  /** Adds a piece; one that is queued already keeps its position. */
  add(turn: QueuedTurn): void {
    if (this.#waiting.has(turn)) return;
    this.#waiting.add(turn);
    if (this.#waiting.size === 1) setImmediate(this.#next);
  }

  readonly #next = (): void => {
    const [turn] = this.#waiting;
    if (turn === undefined) return;
    this.#waiting.delete(turn);
    if (this.#waiting.size > 0) setImmediate(this.#next);
    turn.takeTurn();
  };
}
