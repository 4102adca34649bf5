import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  addCounts,
  countsOfBounds,
  countsSince,
  ExponentialBuckets,
  type ExponentialCounts,
  totalOf,
} from "./exponential-buckets.ts";

function countsOf(values: readonly number[]): ExponentialCounts {
  const buckets = new ExponentialBuckets();
  for (const value of values) buckets.add(value);
  return buckets.counts();
}

/** The bounds of the bucket at a place of `counts`: greater than the first, up to the second. */
function boundsAt({ schema, offset }: ExponentialCounts, at: number): readonly [number, number] {
  const perDoubling = 2 ** schema;
  return [2 ** ((offset + at) / perDoubling), 2 ** ((offset + at + 1) / perDoubling)];
}

/** The bounds of the bucket with the value of a rank, from 1; zeros are in a bucket of their own. */
function bucketOfRank(counts: ExponentialCounts, rank: number): readonly [number, number] {
  let seen = counts.zeros;
  if (rank <= seen) return [0, 2 ** -128];
  const at = counts.counts.findIndex((count) => (seen += count) >= rank);
  return boundsAt(counts, at);
}

/** Durations, sizes and zeros. */
const value = fc.oneof(
  fc.double({ min: 1e-6, max: 1e4, noNaN: true }),
  fc.integer({ min: 0, max: 1_000_000 }),
  fc.constantFrom(0, 1, 0.25, 1024),
);
const values = fc.array(value, { minLength: 1, maxLength: 300 });
/** Rounding of a value that is nearly at a bound. */
const tolerance = 1 + 1e-12;

describe("exponential buckets", () => {
  test("have the exact quantile within the bounds of its bucket, which are 9.1 % apart", () => {
    const durations = fc.array(fc.double({ min: 1e-4, max: 300, noNaN: true }), { minLength: 1, maxLength: 500 });
    fc.assert(
      fc.property(durations, fc.double({ min: 0.001, max: 1, noNaN: true }), (observed, quantile) => {
        const rank = Math.ceil(quantile * observed.length);
        const exact = observed.toSorted((a, b) => a - b)[rank - 1] ?? Number.NaN;
        const counts = countsOf(observed);
        const [low, high] = bucketOfRank(counts, rank);
        expect(counts.schema).toBe(3);
        expect(high / low).toBeLessThan(1.0906);
        expect(exact).toBeGreaterThan(low / tolerance);
        expect(exact).toBeLessThanOrEqual(high * tolerance);
        // An estimate in the geometric middle is the best one.
        expect(Math.abs(Math.sqrt(low * high) / exact - 1)).toBeLessThan(0.0443);
      }),
    );
  });

  test("of two histograms are those of all values", () => {
    fc.assert(
      fc.property(values, values, (one, other) => {
        expect(addCounts(countsOf(one), countsOf(other))).toEqual(countsOf([...one, ...other]));
      }),
    );
  });

  test("of a difference are those of the values since then", () => {
    fc.assert(
      fc.property(values, values, (before, after) => {
        const earlier = countsOf(before);
        const later = countsOf([...before, ...after]);
        const since = countsSince(later, earlier);
        expect(totalOf(since)).toBe(after.length);
        expect(Math.min(since.zeros, ...since.counts)).toBeGreaterThanOrEqual(0);
        expect(addCounts(since, earlier)).toEqual(later);
      }),
    );
  });

  test("are at most 240, whatever the values are, and count each of them", () => {
    fc.assert(
      fc.property(fc.array(fc.double(), { maxLength: 50 }), (observed) => {
        const counts = countsOf(observed);
        expect(counts.counts.length).toBeLessThanOrEqual(240);
        expect(counts.schema).toBeGreaterThanOrEqual(-4);
        expect(totalOf(counts)).toBe(observed.length);
      }),
    );
    const extremes = countsOf([Number.MIN_VALUE, 1e-38, Number.MAX_VALUE, Number.POSITIVE_INFINITY, Number.NaN, -1]);
    // 1e-38 to 2^1024 are 1,151 doublings.
    expect(extremes).toMatchObject({ schema: -3, zeros: 3 });
  });

  test("have the value of a bound below it", () => {
    expect(countsOf([1, 2, 4])).toEqual({
      ...{ schema: 3, zeros: 0, offset: -1 },
      counts: [1, ...new Array<number>(7).fill(0), 1, ...new Array<number>(7).fill(0), 1],
    });
  });
});

test("values of which only the bound is known are counted as their bound, and above all bounds as twice the last", () => {
  const bounds = [0.1, 1, 5];
  expect(countsOfBounds(bounds, [2, 0, 1, 3])).toEqual(countsOf([0.1, 0.1, 5, 10, 10, 10]));
  expect(totalOf(countsOfBounds(bounds, [0, 0, 0, 0]))).toBe(0);
});
