/**
 * The most that each of several may keep so that all together keep at most `target`: those below it keep what they have.
 * Infinity where they have no more than `target` as they are.
 */
export function fairLevel(amounts: readonly number[], target: number): number {
  let left = target;
  for (const [at, amount] of amounts.toSorted((a, b) => a - b).entries()) {
    const share = left / (amounts.length - at);
    if (amount > share) return share;
    left -= amount;
  }
  return Number.POSITIVE_INFINITY;
}
