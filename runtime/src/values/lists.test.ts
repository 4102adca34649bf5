/** Lists that follow from earlier ones are what they would be if they were computed from the start. */
import { runToEnd } from "@gatewayproxy/runtime/steps";
import fc from "fast-check";
import { expect, test } from "vitest";
import { changeBetween, differenceBetween, groupedBy, joined, pagesBy, sortedBy } from "./lists.ts";

interface Item {
  readonly name: string;
  readonly keys: readonly string[];
}

const item: fc.Arbitrary<Item> = fc.record({
  name: fc.string({ minLength: 1, maxLength: 3 }),
  keys: fc.uniqueArray(fc.constantFrom("a", "b", "c"), { maxLength: 2 }),
});
/** Series of lists that have many items in common, in any order. */
const series = fc
  .array(item, { minLength: 1, maxLength: 200 })
  .chain((items) =>
    fc.array(fc.shuffledSubarray(items, { minLength: Math.floor(items.length * 0.8) }), { maxLength: 6 }),
  );

const compare = (a: Item, b: Item) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);

test("a page ends where its items say, whatever was before it", () => {
  fc.assert(
    fc.property(series, (lists) => {
      const pagesOf = pagesBy<Item>(({ name }) => name);
      for (const list of lists) {
        const pages = pagesOf(list);
        expect(joined(pages)).toEqual(list);
        expect(pages).toEqual(pagesBy<Item>(({ name }) => name)(list));
        expect(pagesOf([...list]).every((page, at) => page === pages[at])).toBe(true);
      }
    }),
  );
});

test("no page is longer than 256 items, and an item more changes one page or two", () => {
  const pagesOf = pagesBy<Item>(({ name }) => name);
  const items = Array.from({ length: 2_000 }, (_, at): Item => ({ name: `item ${at}`, keys: [] }));
  const before = new Set(pagesOf(items));
  expect(before.size).toBeGreaterThan(30);
  const changed = pagesOf(items.toSpliced(1_000, 0, { name: "one more", keys: [] })).filter(
    (page) => !before.has(page),
  );
  expect([1, 2]).toContain(changed.length);
  const equal = pagesBy<Item>(() => "never ends");
  expect(Math.max(...equal(items).map(({ length }) => length))).toBe(256);
});

test("a sorted list and groups follow from the last ones", () => {
  fc.assert(
    fc.property(series, (lists) => {
      const sort = sortedBy(compare);
      const group = groupedBy<Item>(({ keys }) => keys, compare);
      for (const list of lists) {
        expect(sort(list).map(({ name }) => name)).toEqual(list.toSorted(compare).map(({ name }) => name));
        expect(new Set(sort(list))).toEqual(new Set(list));
        const groups = runToEnd(group(list));
        const keys = new Set(list.flatMap((each) => each.keys));
        expect(new Set(groups.keys())).toEqual(keys);
        for (const key of keys) {
          const own = list.filter((each) => each.keys.includes(key));
          expect(groups.get(key)?.map(({ name }) => name)).toEqual(own.toSorted(compare).map(({ name }) => name));
        }
      }
    }),
  );
});

test("a list with the same items has the same result, and an unchanged group is the same list", () => {
  const items = Array.from({ length: 40 }, (_, at): Item => ({ name: `item ${at}`, keys: [at % 2 === 0 ? "a" : "b"] }));
  const sort = sortedBy(compare);
  const group = groupedBy<Item>(({ keys }) => keys, compare);
  expect(sort([...items])).toBe(sort(items));
  const before = runToEnd(group(items));
  const after = runToEnd(group(items.with(3, { name: "another", keys: ["b"] })));
  expect(after.get("a")).toBe(before.get("a"));
  expect(after.get("b")?.map(({ name }) => name)).toContain("another");
  expect(after.get("b")).toHaveLength(20);
});

/** 2,000 items in 100 groups, and how many items were read to group them. */
function countedGroups() {
  const items = Array.from({ length: 2_000 }, (_, at): Item => ({ name: `item ${at}`, keys: [`key ${at % 100}`] }));
  let count = 0;
  const group = groupedBy<Item>(({ keys }) => {
    count++;
    return keys;
  }, compare);
  return { items, group, read: () => count };
}

test("a list is grouped in steps of a few items, and at once if it has few other items than the last one", () => {
  const { items, group, read } = countedGroups();
  let longest = 0;
  for (const steps = group(items); ; ) {
    const before = read();
    const { done } = steps.next();
    longest = Math.max(longest, read() - before);
    if (done === true) break;
  }
  expect(read()).toBe(2_000);
  expect(longest).toBeLessThanOrEqual(64);
  runToEnd(group(items.toSpliced(7, 1)));
  expect(read()).toBe(2_001);
});

test("a list that does not change is grouped once, however often a part of it is another one", () => {
  const { items, group, read } = countedGroups();
  const groupBoth = (length: number) => {
    runToEnd(group(items));
    runToEnd(group(items.slice(0, length)));
  };
  groupBoth(1_000);
  const ofBoth = read();
  for (let length = 999; length > 990; length--) groupBoth(length);
  expect(read() - ofBoth).toBe(9);
});

test("pages are joined to one list, and the same pages to the same list", () => {
  fc.assert(
    fc.property(fc.array(fc.array(item, { maxLength: 4 }), { maxLength: 6 }), (pages) => {
      expect(joined(pages)).toEqual(pages.flat());
      expect(joined([...pages])).toBe(joined(pages));
    }),
  );
});

test("the change between two lists has the items of only one of them", () => {
  const [a, b, c, d] = [{}, {}, {}, {}];
  expect(changeBetween([a, b, c], [a, d, c])).toEqual({ removed: [b], added: [d] });
  expect(changeBetween([a, b, c], [c, b, a])).toEqual({ removed: [], added: [] });
  expect(changeBetween([a, b], [c, d])).toBeUndefined();
});

test("the difference between lists after any edits has the items of only one of them", () => {
  const edit = fc.record({
    kind: fc.constantFrom("remove", "add", "replace", "move", "swap"),
    at: fc.nat(),
    to: fc.nat(),
  });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 40 }), fc.array(edit, { maxLength: 12 }), (length, edits) => {
      const before = Array.from({ length }, (_, at) => ({ at }));
      const after = [...before];
      for (const [n, { kind, at, to }] of edits.entries()) {
        const [from, other] = [at % Math.max(1, after.length), to % Math.max(1, after.length)];
        const item = after[from];
        if (kind === "add" || item === undefined) after.splice(from, 0, { at: 1_000 + n });
        else if (kind === "remove") after.splice(from, 1);
        else if (kind === "replace") after[from] = { at: 1_000 + n };
        else if (kind === "move") after.splice(other, 0, ...after.splice(from, 1));
        else [after[from], after[other]] = [after[other] ?? item, item];
      }
      const { removed, added } = differenceBetween(before, after);
      expect(new Set(removed)).toEqual(new Set(before).difference(new Set(after)));
      expect(new Set(added)).toEqual(new Set(after).difference(new Set(before)));
      expect([removed.length, added.length]).toEqual([new Set(removed).size, new Set(added).size]);
    }),
  );
});
