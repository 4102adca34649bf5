import { expect, test } from "vitest";
import { amountText } from "./amounts.ts";

test.each([
  [25_000_000, "25.00"],
  [250_000, "0.25"],
  [25_000, "0.025"],
  [1, "0.000001"],
  [0, "0.00"],
  [999_999_999_999_999, "999999999.999999"],
])("%d micro-units are %s", (units, text) => {
  expect(amountText(units, "spend")).toBe(text);
  expect(amountText(units, "tokens")).toBe(String(units));
});
