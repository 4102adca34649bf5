import { expect, test } from "vitest";
import { IdSet, TextIds } from "./text-ids.ts";

test("texts of a namespace have numbers from 0", () => {
  const ids = new TextIds();
  expect(["x", "y", "x", "z"].map((text) => ids.of("one", text))).toEqual([0, 1, 0, 2]);
  expect(ids.of("two", "z")).toBe(0);
});

test("a set has the numbers that were added, and no others", () => {
  const set = new IdSet();
  const added = [0, 31, 32, 63, 64, 1_000, 70_000];
  for (const id of added) set.add(id);
  set.add(31);
  const all = Array.from({ length: 80_000 }, (_, id) => id);
  expect(all.filter((id) => set.has(id))).toEqual(added);
});
