import fc from "fast-check";
import { expect, test } from "vitest";
import { RecentKeys } from "./recent-keys.ts";

test("holds the newest half at least, and never more than it may", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 20 }), fc.uniqueArray(fc.nat(), { maxLength: 200 }), (capacity, numbers) => {
      const recent = new RecentKeys(capacity, 100);
      const added = numbers.map(String);
      for (const key of added) recent.set(key, 1);
      const held = added.filter((key) => recent.get(key) === 1);
      expect(held.length).toBeLessThanOrEqual(capacity);
      for (const key of added.slice(-Math.floor(capacity / 2))) expect(recent.get(key)).toBe(1);
    }),
  );
});

test("never holds a long text", () => {
  const recent = new RecentKeys(10, 5);
  recent.set("123456", 1);
  recent.set("12345", 1);
  expect([recent.get("123456"), recent.get("12345")]).toEqual([undefined, 1]);
});

test("deletes one key, and clears all", () => {
  const recent = new RecentKeys(4, 5);
  for (const key of ["a", "b", "c"]) recent.set(key, 1);
  recent.delete("a");
  expect(["a", "b", "c"].filter((key) => recent.get(key) === 1)).toEqual(["b", "c"]);
  recent.clear();
  expect(["a", "b", "c"].filter((key) => recent.get(key) === 1)).toEqual([]);
});

test("holds the last number of a text, in whichever half it was", () => {
  const recent = new RecentKeys(4, 5);
  for (const [key, value] of [
    ["a", 1],
    ["b", 1],
    ["c", 1],
    ["a", 2],
  ] as const) {
    recent.set(key, value);
  }
  expect(["a", "b", "c"].map((key) => recent.get(key))).toEqual([2, 1, 1]);
});
