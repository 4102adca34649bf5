/**
 * Returns the level to which amounts must be reduced so that their sum is at most `target` (max-min fairness). Amounts
 * below the level are not reduced. Returns Infinity if the sum is at most `target` already.
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
