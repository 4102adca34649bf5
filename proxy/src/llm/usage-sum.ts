/** Adds the usage of several attempts of one request. */
import type { TokenUsage } from "../ir/usage.ts";

const amounts = [
  "input",
  "output",
  "cachedInputTokens",
  "cacheCreationTokens",
  "reasoningTokens",
  "cost",
] as const satisfies readonly (keyof TokenUsage)[];

/**
 * Returns the sum. A figure that is in neither usage is not in it. The model and the currency are those of the last
 * one.
 */
export function sumOfUsages(before: TokenUsage | undefined, last: TokenUsage): TokenUsage {
  if (before === undefined) return last;
  const sums = amounts.flatMap((name) => {
    const [one, other] = [before[name], last[name]];
    return one === undefined && other === undefined ? [] : [[name, (one ?? 0) + (other ?? 0)] as const];
  });
  return {
    ...before,
    ...last,
    ...Object.fromEntries(sums),
    total: before.total + last.total,
    estimated: before.estimated || last.estimated,
  };
}
