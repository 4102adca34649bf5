/** The statistics that a benchmark prints of its repeats. */

/** The median of `values`, and their extremes. */
export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** Throws on no values: a case without a repeat has no result. */
export function spread(values: readonly number[]): Spread {
  return { median: percentile(values, 50), min: percentile(values, 0), max: percentile(values, 100) };
}

/** The `percent`th percentile of `values` in any order, between neighbours by proportion. Throws on no values. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const position = ((sorted.length - 1) * percent) / 100;
  const lower = sorted[Math.floor(position)];
  const upper = sorted[Math.ceil(position)];
  if (lower === undefined || upper === undefined) throw new Error("no values to take a percentile of");
  return lower + (upper - lower) * (position - Math.floor(position));
}
