import { expect, test } from "vitest";
import { OverLimitCache } from "./over-limit-cache.ts";

test("knows a counter to be over its limit and every lower one, not over a higher", () => {
  const cache = new OverLimitCache(10_000);
  cache.remember("k", 10, 100, 50);
  expect([9, 10, 11].map((limit) => cache.isOver("k", limit))).toEqual([true, true, false]);
  expect(cache.isOver("other", 10)).toBe(false);
});

test("forgets a counter that was given hits back", () => {
  const cache = new OverLimitCache(10_000);
  cache.remember("k", 10, 100, 50);
  cache.forget("k");
  expect(cache.isOver("k", 10)).toBe(false);
});

test("holds as much as its memory takes, the newest", () => {
  const cache = new OverLimitCache(1_000);
  for (let i = 0; i < 100; i++) cache.remember(`key${i}`, 1, 100, 50);
  expect(cache.size).toBe(7);
  expect(cache.isOver("key99", 1)).toBe(true);
  expect(cache.isOver("key0", 1)).toBe(false);
});

test("lets go of windows that have ended", () => {
  const cache = new OverLimitCache(10_000);
  cache.remember("old", 1, 100, 50);
  cache.remember("new", 1, 200, 100);
  expect(cache.size).toBe(1);
});

test("with hardly any memory remembers nothing, and still works", () => {
  const cache = new OverLimitCache(1);
  cache.remember("k", 1, 100, 50);
  expect(cache.isOver("k", 1)).toBe(false);
});
