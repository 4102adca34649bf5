/**
 * Chooses among weighted backends (Gateway API `HTTPBackendRef.weight`) by smooth weighted round robin: each choice
 * raises every counter by its weight, takes the highest and lowers that one by the sum. The shares are exact over every
 * run of as many choices as the weights add up to, and spread evenly in between: 90:10 is one in ten, never ten in a
 * row. Nothing is random, so a split can be tested and explained.
 */

/** Returns the next choice; `undefined` when nothing may be chosen, because every weight is 0. */
export type Picker<T> = () => T | undefined;

/** `weight` is a whole number from 0 to 1,000,000; what has weight 0 is never chosen. The picker keeps its own place. */
export function compileWeighted<T extends { readonly weight: number }>(refs: readonly T[]): Picker<T> {
  const eligible = refs.filter(({ weight }) => weight > 0);
  if (eligible.length <= 1) {
    const only = eligible[0];
    return () => only;
  }
  const entries = eligible.map((ref) => ({ ref, weight: ref.weight, current: 0 }));
  const total = entries.reduce((sum, { weight }) => sum + weight, 0);
  return () => {
    let highest = entries[0];
    for (const entry of entries) {
      entry.current += entry.weight;
      if (highest !== undefined && entry.current > highest.current) highest = entry;
    }
    if (highest === undefined) return undefined;
    highest.current -= total;
    return highest.ref;
  };
}
