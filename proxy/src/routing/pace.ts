/** Counts the work of a computation in steps, so that it yields once per step and not at each item. */
export class Pace {
  readonly #perStep: number;
  #workOfStep = 0;

  /** @param perStep work of one step, in a unit of the caller. */
  constructor(perStep: number) {
    this.#perStep = perStep;
  }

  /** Adds `work`. Returns whether this completes the step, and then begins the next one. */
  endsStep(work: number): boolean {
    this.#workOfStep += work;
    if (this.#workOfStep < this.#perStep) return false;
    this.#workOfStep = 0;
    return true;
  }
}
