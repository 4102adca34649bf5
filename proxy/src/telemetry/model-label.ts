/**
 * The label for the model of a response. Some servers report whatever model the client names, so clients choose the
 * values. At most `max` models have series of their own. A further one is `other` until one of them has had no response
 * for a while, whose series are then removed. A model in use keeps its series whatever names other clients send.
 */

/** The time without a response after which a model gives its series to another one. */
export const idleMs = 600_000;

/** Assigns the label values of models. */
export class ModelLabel {
  readonly #max: number;
  readonly #removeSeries: (model: string) => void;
  /** The wall time of the last response of each model, the oldest first. */
  readonly #lastMs = new Map<string, number>();

  /**
   * Creates a label.
   *
   * @param removeSeries called with a model whose series are to be removed.
   */
  constructor(max: number, removeSeries: (model: string) => void) {
    this.#max = max;
    this.#removeSeries = removeSeries;
  }

  /**
   * Returns the label value of a model.
   *
   * @param nowMs wall time; where it steps back, models keep their series longer.
   */
  of(model: string, nowMs: number): string {
    if (!this.#lastMs.delete(model) && !this.#evictIdle(nowMs)) return "other";
    this.#lastMs.set(model, nowMs);
    return model;
  }

  /** Returns the label value of a model that gets no series if it has none. */
  known(model: string): string {
    return this.#lastMs.has(model) ? model : "other";
  }

  /** @returns false when every series is in use. */
  #evictIdle(nowMs: number): boolean {
    if (this.#lastMs.size < this.#max) return true;
    const [oldest] = this.#lastMs;
    if (oldest === undefined || nowMs - oldest[1] < idleMs) return false;
    this.#lastMs.delete(oldest[0]);
    this.#removeSeries(oldest[0]);
    return true;
  }
}
