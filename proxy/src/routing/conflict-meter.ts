/** The look-ups that a search for conflicts may make. */
export class Meter {
  #left: number;

  constructor(left: number) {
    this.#left = left;
  }

  /** @returns false, and takes nothing, where there is not so much left. */
  spend(units: number): boolean {
    if (units > this.#left) return false;
    this.#left -= units;
    return true;
  }
}
