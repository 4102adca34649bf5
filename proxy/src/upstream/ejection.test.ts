import { describe, expect, test } from "vitest";
import { ejectionMs, mayEject } from "./ejection.ts";

describe("at most half of the endpoints are out", () => {
  test.each([
    [1, 0, false],
    [2, 0, true],
    [2, 1, false],
    [3, 0, true],
    [3, 1, false],
    [4, 1, true],
    [4, 2, false],
  ])("of %i with %i out: %s", (endpoints, out, expected) => {
    expect(mayEject(endpoints, out)).toBe(expected);
  });
});

test("each ejection is twice as long as the one before, up to five minutes", () => {
  expect([0, 1, 2, 3, 4, 5, 9].map((times) => ejectionMs(times, 0))).toEqual([
    10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000,
  ]);
});

test("chance makes it up to half as long again", () => {
  expect(ejectionMs(0, 0.5)).toBe(12_500);
  expect(ejectionMs(9, 0.999)).toBeLessThan(450_000);
});
