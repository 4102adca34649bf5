/**
 * The label for the model that answered. Some servers answer with whatever model the client names, so the values are the
 * client's to invent. At most so many have series of their own; a further one is `other` until one of them has not
 * answered for a while, whose series then make room. A model in use keeps its series whatever is invented beside it.
 */

/** A model that has not answered for so long gives its place to another one. */
export const idleMs = 600_000;

export class ModelLabel {
  readonly #max: number;
  readonly #forget: (model: string) => void;
  /** When each last answered, the longest ago first. */
  readonly #lastMs = new Map<string, number>();

  /** @param forget called with a model whose series are to go. */
  constructor(max: number, forget: (model: string) => void) {
    this.#max = max;
    this.#forget = forget;
  }

  /** @param nowMs wall time; where it steps back, models keep their places longer. */
  of(model: string, nowMs: number): string {
    if (!this.#lastMs.delete(model) && !this.#makeRoom(nowMs)) return "other";
    this.#lastMs.set(model, nowMs);
    return model;
  }

  /** @returns false when every place is in use. */
  #makeRoom(nowMs: number): boolean {
    if (this.#lastMs.size < this.#max) return true;
    const [oldest] = this.#lastMs;
    if (oldest === undefined || nowMs - oldest[1] < idleMs) return false;
    this.#lastMs.delete(oldest[0]);
    this.#forget(oldest[0]);
    return true;
  }
}
