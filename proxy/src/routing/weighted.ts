/**
 * Chooses among weighted backends (Gateway API `HTTPBackendRef.weight`) by smooth weighted round robin: each choice
 * raises every counter by its weight, takes the highest and lowers that one by the sum. The shares are exact over every
 * run of as many choices as the weights add up to, and spread evenly in between: 90:10 is one in ten, never ten in a
 * row. Nothing is random, so a split can be tested and explained.
 */

/** Returns the next choice; `undefined` when nothing may be chosen, because every weight is 0. */
export type Picker<T> = () => T | undefined;

/** The state of a rotation: one counter per weight, in their order. Each choice advances it. */
export type Rotation = number[];

/**
 * `weight` is a whole number from 0 to 1,000,000; what has weight 0 is never chosen.
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
    let place = -1;
    for (let at = 0; at < refs.length; at++) {
      const weight = refs[at]?.weight ?? 0;
      if (weight === 0) continue;
      const current = (rotation[at] ?? 0) + weight;
      rotation[at] = current;
      if (place === -1 || current > highest) {
        highest = current;
        place = at;
      }
    }
    rotation[place] = highest - total;
    return refs[place];
  };
}

/**
 * The states of all rotations, kept beside the snapshot by owner. Without it each new snapshot would start every rule
 * at its heaviest backend again, and a configuration that changes often would never reach the others.
 */
export class Rotations {
  #kept = new Map<string, Rotation>();
  #previous: ReadonlyMap<string, Rotation> = new Map();

  /** Call before a snapshot is compiled: what it does not ask for is forgotten with the next call. */
  beginSnapshot(): void {
    this.#previous = this.#kept;
    this.#kept = new Map();
  }

  /** Returns the rotation of `owner` over these weights; other weights have a new rotation. */
  of(owner: string, weights: readonly number[]): Rotation {
    const key = `${owner} ${weights.join(":")}`;
    const rotation = this.#kept.get(key) ?? this.#previous.get(key) ?? weights.map(() => 0);
    this.#kept.set(key, rotation);
    return rotation;
  }
}
