import { describe, expect, test } from "vitest";
import { microUnitsNear, microUnitsOf, unitsOfMoney } from "./money.ts";

describe("amounts of money", () => {
  test.each([
    ["25.00", 25_000_000],
    ["0.25", 250_000],
    ["0.025", 25_000],
    ["0.000001", 1],
    ["7", 7_000_000],
    ["0", 0],
    ["999999999.999999", 999_999_999_999_999],
  ])("%s is %d micro-units", (decimal, microUnits) => {
    expect(microUnitsOf(decimal)).toBe(microUnits);
    expect(microUnitsNear(unitsOfMoney(microUnits))).toBe(microUnits);
  });
});
