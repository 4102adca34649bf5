import fc from "fast-check";
import { expect, test } from "vitest";
import { fairLevel } from "./fair-level.ts";

test("a level reduces the sum to the target, and does not reduce amounts below it", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(1_000), { minLength: 1 }), fc.nat(20_000), (amounts, target) => {
      const level = fairLevel(amounts, target);
      const kept = amounts.map((amount) => Math.min(amount, level)).reduce((a, b) => a + b);
      const total = amounts.reduce((a, b) => a + b);
      expect(kept).toBeCloseTo(Math.min(total, target), 6);
    }),
  );
});
