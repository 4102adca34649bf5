/** Values are kept while their inputs are the same objects, and no longer. */
import { expect, test } from "vitest";
import { keepingEqual, memoised, memoisedWith, sameList } from "./memoised.ts";

test("a value is computed once for an object", () => {
  let count = 0;
  const numberOf = memoised<object, number>(() => ++count);
  const [a, b] = [{}, {}];
  expect([numberOf(a), numberOf(b), numberOf(a)]).toEqual([1, 2, 1]);
});

test("an undefined value is kept, too", () => {
  let count = 0;
  const nothing = memoised<object, undefined>(() => void ++count);
  const object = {};
  nothing(object);
  nothing(object);
  expect(count).toBe(1);
});

test("a value with further inputs is computed again if one of them is another object, or their number differs", () => {
  let count = 0;
  const numberOf = memoisedWith<object, readonly unknown[], number>(() => ++count);
  const [key, first, equal] = [{}, { at: 1 }, { at: 1 }];
  expect([numberOf(key, first, 1), numberOf(key, first, 1)]).toEqual([1, 1]);
  expect([numberOf(key, equal, 1), numberOf(key, equal), numberOf(key, equal)]).toEqual([2, 3, 3]);
});

test("a failed computation is repeated", () => {
  let fails = true;
  const value = memoisedWith<object, [], string>(() => {
    if (fails) throw new Error("failed");
    return "computed";
  });
  const key = {};
  expect(() => value(key)).toThrow("failed");
  fails = false;
  expect(value(key)).toBe("computed");
});

test("an equal value is replaced by the last one of the object", () => {
  const kept = keepingEqual<object>();
  const [key, first] = [{}, { ports: [80] }];
  expect(kept(key, first)).toBe(first);
  expect(kept(key, { ports: [80] })).toBe(first);
  const changed = { ports: [81] };
  expect(kept(key, changed)).toBe(changed);
  expect(kept({}, { ports: [81] })).not.toBe(changed);
});

test("a list is replaced by the last one with the same items in the same order", () => {
  const [a, b] = [{}, {}];
  const first = sameList([a, b]);
  for (const other of [{}, {}, {}]) {
    sameList([a, other]);
    expect(sameList([a, b])).toBe(first);
  }
  expect(sameList([a, b])).toBe(first);
  expect(sameList([a])).toEqual([a]);
  expect(sameList([b, a])).toEqual([b, a]);
  expect(sameList([])).toBe(sameList([]));
});
