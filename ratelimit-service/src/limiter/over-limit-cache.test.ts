import { expect, test } from "vitest";
import { type OverLimitEntry, OverLimitCache } from "./over-limit-cache.ts";

const over = (requestsPerUnit: number, windowEndSeconds = 100, refunds = 0): OverLimitEntry => {
  return { requestsPerUnit, windowEndSeconds, refunds };
};

test("knows a counter to be over its limit and every lower one, not over a higher", () => {
  const cache = new OverLimitCache(10_000);
  cache.set("k", over(10), 50);
  expect([9, 10, 11].map((limit) => cache.isOver("k", limit))).toEqual([true, true, false]);
  expect(cache.isOver("other", 10)).toBe(false);
});

test("knows nothing any more from before a refund, whichever thread gave it back", () => {
  const refunds = new Int32Array(new SharedArrayBuffer(4));
  const [mine, other] = [new OverLimitCache(10_000, refunds), new OverLimitCache(10_000, refunds)];
  mine.set("k", over(10), 50);
  other.countRefund();
  expect(mine.isOver("k", 10)).toBe(false);
  // The query began before the refund and ended after it.
  mine.set("k", over(10), 50);
  expect(mine.isOver("k", 10)).toBe(false);
  mine.set("k", over(10, 100, mine.refunds), 50);
  expect(mine.isOver("k", 10)).toBe(true);
});

test("holds as much as its memory takes, the newest", () => {
  const cache = new OverLimitCache(1_000);
  for (let i = 0; i < 100; i++) cache.set(`key${i}`, over(1), 50);
  expect(cache.size).toBe(7);
  expect(cache.isOver("key99", 1)).toBe(true);
  expect(cache.isOver("key0", 1)).toBe(false);
});

test("lets go of windows that have ended", () => {
  const cache = new OverLimitCache(10_000);
  cache.set("old", over(1), 50);
  cache.set("new", over(1, 200), 100);
  expect(cache.size).toBe(1);
});

test("with hardly any memory remembers nothing, and still works", () => {
  const cache = new OverLimitCache(1);
  cache.set("k", over(1), 50);
  expect(cache.isOver("k", 1)).toBe(false);
});
