import { describe, expect, test } from "vitest";
import { percentile, spread } from "./statistics.ts";

describe("percentile", () => {
  test.each([
    { percent: 0, expected: 1 },
    { percent: 50, expected: 2.5 },
    { percent: 99, expected: 3.97 },
    { percent: 100, expected: 4 },
  ])("of 1 to 4 at $percent is $expected", ({ percent, expected }) => {
    expect(percentile([4, 1, 3, 2], percent)).toBeCloseTo(expected, 10);
  });

  test("of no values is an error", () => expect(() => percentile([], 50)).toThrow("no values"));
});

test("spread is the median of the rounds and their extremes", () => {
  expect(spread([30, 10, 20])).toEqual({ median: 20, min: 10, max: 30 });
});
