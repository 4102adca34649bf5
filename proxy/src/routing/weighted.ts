/**
 * Chooses among weighted backends (Gateway API `HTTPBackendRef.weight`) by smooth weighted round robin: each choice
 * increases every counter by its weight, takes the backend with the highest counter and decreases this counter by the
 * sum of the weights. The shares are exact over every series of choices as long as the sum of the weights, and evenly
 * distributed within it: 90:10 is every tenth choice, not ten in a row. Nothing is random, so a split can be tested and
 * explained.
 */

/** Returns the next choice; undefined if all weights are 0. */
export type Picker<T> = () => T | undefined;

/** The state of a rotation: one counter per weight, in their order. Each choice advances it. */
export type Rotation = number[];

/**
 * Returns the function that chooses. `weight` is an integer from 0 to 1,000,000; a reference with weight 0 is never
 * chosen.
 *
 * @param rotation The state to continue from, of `Rotations`; absent: a new one.
 */
export function compileWeighted<T extends { readonly weight: number }>(
  refs: readonly T[],
  rotation: Rotation = [],
): Picker<T> {
  const total = refs.reduce((sum, { weight }) => sum + weight, 0);
  const eligible = refs.filter(({ weight }) => weight > 0);
  if (eligible.length <= 1) {
    const only = eligible[0];
    return () => only;
  }
  return () => {
    let highest = 0;
    let chosenIndex = -1;
    for (let at = 0; at < refs.length; at++) {
      const weight = refs[at]?.weight ?? 0;
      if (weight === 0) continue;
      const current = (rotation[at] ?? 0) + weight;
      rotation[at] = current;
      if (chosenIndex === -1 || current > highest) {
        highest = current;
        chosenIndex = at;
      }
    }
    rotation[chosenIndex] = highest - total;
    return refs[chosenIndex];
  };
}

/**
 * The states of all rotations, by owner. They outlive a snapshot. Otherwise each new snapshot would start every rule at
 * its heaviest backend again, and a configuration that changes often would never reach the others.
 */
export class Rotations {
  #current = new Map<string, Rotation>();
  #previous: ReadonlyMap<string, Rotation> = new Map();

  /**
   * Must be called before a snapshot is compiled. The next call removes the rotations that the snapshot does not use.
   */
  beginSnapshot(): void {
    this.#previous = this.#current;
    this.#current = new Map();
  }

  /** Returns the rotation of `owner` over these weights. Other weights have a separate rotation. */
  of(owner: string, weights: readonly number[]): Rotation {
    const key = `${owner} ${weights.join(":")}`;
    const rotation = this.#current.get(key) ?? this.#previous.get(key) ?? weights.map(() => 0);
    this.#current.set(key, rotation);
    return rotation;
  }
}
