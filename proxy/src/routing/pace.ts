/** Counts work, so that a computation in steps yields after a piece of it and not at each item. */
export class Pace {
  readonly #perStep: number;
  #done = 0;

  /** @param perStep work of one step, in whatever the caller counts. */
  constructor(perStep: number) {
    this.#perStep = perStep;
  }

  /** Adds `work` and says whether the step is long enough. */
  isOver(work: number): boolean {
    this.#done += work;
    if (this.#done < this.#perStep) return false;
    this.#done = 0;
    return true;
  }
}
