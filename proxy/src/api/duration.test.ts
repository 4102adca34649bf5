import { expect, test } from "vitest";
import { durationMs } from "./duration.ts";

test.each([
  ["0s", 0],
  ["500ms", 500],
  ["10s", 10_000],
  ["1m30s", 90_000],
  ["1h1m1s1ms", 3_661_001],
  ["1ms1m", 60_001],
  ["99999h", 359_996_400_000],
])("%s is %i ms", (text, ms) => {
  expect(durationMs(text)).toBe(ms);
});
