import fc from "fast-check";
import { expect, test } from "vitest";
import { RecentKeys } from "./recent-keys.ts";

test("holds the newest half at least, and never more than it may", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 20 }), fc.uniqueArray(fc.nat(), { maxLength: 200 }), (capacity, numbers) => {
      const recent = new RecentKeys(capacity, 100);
      const added = numbers.map(String);
      for (const key of added) recent.add(key);
      const held = added.filter((key) => recent.has(key));
      expect(held.length).toBeLessThanOrEqual(capacity);
      for (const key of added.slice(-Math.floor(capacity / 2))) expect(recent.has(key)).toBe(true);
    }),
  );
});

test("never holds a long text", () => {
  const recent = new RecentKeys(10, 5);
  recent.add("123456");
  recent.add("12345");
  expect([recent.has("123456"), recent.has("12345")]).toEqual([false, true]);
});

test("forgets what it is told to, and all at once", () => {
  const recent = new RecentKeys(4, 5);
  for (const key of ["a", "b", "c"]) recent.add(key);
  recent.delete("a");
  expect(["a", "b", "c"].filter((key) => recent.has(key))).toEqual(["b", "c"]);
  recent.clear();
  expect(["a", "b", "c"].filter((key) => recent.has(key))).toEqual([]);
});
