/**
 * Exponential buckets: the native histograms of Prometheus, and the exponential histograms of OpenTelemetry. Bucket `i`
 * counts the values in (base^i, base^(i+1)], where base is 2^(2^-schema). The number of buckets is bounded: when the
 * range of the values grows beyond it, each two neighbours become one.
 */

/** Eight buckets for each doubling: a quantile within a bucket is off by 4.4 % at most. */
const finestSchema = 3;
/** The buckets from the smallest to the largest value: at the finest schema 30 doublings, such as 1 µs to 1,000 s. */
const maxBuckets = 240;

/** Values up to this one are counted as zeros, as by the libraries of Prometheus. */
export const zeroThreshold = 2 ** -128;

/** The counts of exponential buckets, as plain data that can be posted. */
export interface ExponentialCounts {
  /** From -4 to 3. */
  readonly schema: number;
  /** The number of values up to `zeroThreshold`. */
  readonly zeros: number;
  /** The index of the first bucket. */
  readonly offset: number;
  /** The number of values in each bucket, at most 240. */
  readonly counts: readonly number[];
}

/** Buckets one after the other, of any schema. */
type Range = Pick<ExponentialCounts, "offset" | "counts">;

/** Counts values in exponential buckets. */
export class ExponentialBuckets {
  #schema = finestSchema;
  /** Buckets for each doubling. */
  #perDoubling = 2 ** finestSchema;
  #zeros = 0;
  #offset = 0;
  #counts: number[] = [];

  /** @param count of values that are all `value`. */
  add(value: number, count = 1): void {
    // Also for a value that is no number.
    if (!(value > zeroThreshold)) {
      this.#zeros += count;
      return;
    }
    let at = this.#indexOf(value) - this.#offset;
    if (at < 0 || at >= this.#counts.length) at = this.#include(value);
    this.#counts[at] = (this.#counts[at] ?? 0) + count;
  }

  /** Returns a copy of the counts. */
  counts(): ExponentialCounts {
    return { schema: this.#schema, zeros: this.#zeros, offset: this.#offset, counts: [...this.#counts] };
  }

  #indexOf(value: number): number {
    return Math.ceil(Math.log2(Math.min(value, Number.MAX_VALUE)) * this.#perDoubling) - 1;
  }

  /** Extends the buckets to a value. @returns its place in `#counts`. */
  #include(value: number): number {
    for (;;) {
      const index = this.#indexOf(value);
      if (this.#counts.length === 0) this.#offset = index;
      const before = Math.max(0, this.#offset - index);
      const after = Math.max(0, index + 1 - this.#offset - this.#counts.length);
      if (before + this.#counts.length + after <= maxBuckets) {
        if (before > 0) this.#counts.unshift(...new Array<number>(before).fill(0));
        for (let added = 0; added < after; added++) this.#counts.push(0);
        this.#offset -= before;
        return index - this.#offset;
      }
      this.#schema--;
      this.#perDoubling /= 2;
      const halved = lowered({ offset: this.#offset, counts: this.#counts }, 1);
      [this.#offset, this.#counts] = [halved.offset, [...halved.counts]];
    }
  }
}

/** Adds up the counts of two histograms. */
export function addCounts(one: ExponentialCounts, other: ExponentialCounts): ExponentialCounts {
  return combined(one, other, 1);
}

/** Returns what `later` has counted since `earlier`, an earlier state of the same histogram. */
export function countsSince(later: ExponentialCounts, earlier: ExponentialCounts): ExponentialCounts {
  return combined(later, earlier, -1);
}

/** Returns the number of values. */
export function totalOf({ zeros, counts }: ExponentialCounts): number {
  return counts.reduce((sum, count) => sum + count, zeros);
}

/**
 * Returns counts of values of which only the buckets by bound are known. Each is counted as its bound, and those above
 * all bounds as twice the last one.
 *
 * @param bounds ascending. @param counts as in `HistogramPoint`.
 */
export function countsOfBounds(bounds: readonly number[], counts: readonly number[]): ExponentialCounts {
  const buckets = new ExponentialBuckets();
  const aboveAll = 2 * (bounds.at(-1) ?? 1);
  for (const [at, count] of counts.entries()) if (count > 0) buckets.add(bounds[at] ?? aboveAll, count);
  return buckets.counts();
}

function combined(one: ExponentialCounts, other: ExponentialCounts, sign: 1 | -1): ExponentialCounts {
  const zeros = one.zeros + sign * other.zeros;
  if (other.counts.length === 0) return { ...one, zeros };
  if (one.counts.length === 0 && sign === 1) return { ...other, zeros };
  for (let schema = Math.min(one.schema, other.schema); ; schema--) {
    const ranges = [lowered(one, one.schema - schema), lowered(other, other.schema - schema)] as const;
    const offset = Math.min(...ranges.map((range) => range.offset));
    const end = Math.max(...ranges.map((range) => range.offset + range.counts.length));
    if (end - offset > maxBuckets) continue;
    const counts = new Array<number>(end - offset).fill(0);
    addTo(counts, offset, ranges[0], 1);
    addTo(counts, offset, ranges[1], sign);
    return { schema, zeros, offset, counts };
  }
}

function addTo(counts: number[], offset: number, range: Range, sign: 1 | -1): void {
  for (const [at, count] of range.counts.entries()) {
    const place = range.offset + at - offset;
    counts[place] = (counts[place] ?? 0) + sign * count;
  }
}

/** Combines neighbours. @param steps the number of schemas by which the result is lower. */
function lowered({ offset: from, counts: finer }: Range, steps: number): Range {
  if (steps === 0 || finer.length === 0) return { offset: from >> steps, counts: finer };
  // The shift of a negative index rounds down, too.
  const offset = from >> steps;
  const counts = new Array<number>(((from + finer.length - 1) >> steps) - offset + 1).fill(0);
  for (const [at, count] of finer.entries()) {
    const place = ((from + at) >> steps) - offset;
    counts[place] = (counts[place] ?? 0) + count;
  }
  return { offset, counts };
}
