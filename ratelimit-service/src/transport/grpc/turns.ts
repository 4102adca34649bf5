/** Work that would hold up other calls if it were done at once. */
export interface Turn {
  takeTurn(): void;
}

/** Gives each piece of work a turn of the event loop, in their order, so that sockets are read in between. */
export class Turns {
  readonly #waiting = new Set<Turn>();

  /** A piece that waits already keeps its place. */
  add(turn: Turn): void {
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
