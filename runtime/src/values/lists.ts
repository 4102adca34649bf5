/**
 * Lists of thousands of immutable objects of which few change at a time: what is computed of such a list is computed of
 * its pages, or follows from the last list and what has changed. The result is the same as if it were computed of the
 * whole list.
 */
import { hashOfText } from "../text/text-hash.ts";
import { runToEnd, type Steps } from "../timing/steps.ts";
import { memoised, sameList } from "./memoised.ts";

/** A list that is divided into short ones. */
export type Pages<Item> = readonly (readonly Item[])[];

/** On average, each 32nd item is the last one of its page. */
const meanPageLength = 32;

/** Names can be chosen so that none of them ends a page. */
const maxPageLength = 256;

/**
 * Returns a function that divides lists into pages. Where a page ends depends on the keys of the items in it, so that
 * an item that is added or removed changes one page. Returns the same lists for the same items.
 */
export function pagesBy<Item extends object>(keyOf: (item: Item) => string): (items: readonly Item[]) => Pages<Item> {
  const endsPage = (item: Item) => hashOfText(keyOf(item)) % meanPageLength === 0;
  /** By its first item, the last page that ends where it does whatever follows it. */
  const known = new WeakMap<Item, readonly Item[]>();
  const pageAt = (items: readonly Item[], from: number): readonly Item[] => {
    const first = items[from];
    const last = first && known.get(first);
    if (last !== undefined && isAt(items, from, last)) return last;
    for (let to = from + 1; to <= items.length; to++) {
      const item = items[to - 1];
      if (item === undefined || (!endsPage(item) && to - from < maxPageLength)) continue;
      const page = sameList(items.slice(from, to));
      if (first !== undefined) known.set(first, page);
      return page;
    }
    return sameList(items.slice(from));
  };
  return memoised((items: readonly Item[]) => {
    const pages: (readonly Item[])[] = [];
    for (let from = 0; from < items.length; ) {
      const page = pageAt(items, from);
      pages.push(page);
      from += page.length;
    }
    return pages;
  });
}

/** Whether the items of a page are in a list from an index on. */
export function isAt(items: readonly object[], from: number, page: readonly object[]): boolean {
  for (let at = 0; at < page.length; at++) if (items[from + at] !== page[at]) return false;
  return true;
}

/** Returns all items of pages in one list, and the same list for the same pages. Pages may be empty. */
export function joined<Item extends object>(pages: Pages<Item>): readonly Item[] {
  return listOf(sameList(pages.filter(({ length }) => length > 0))) as readonly Item[];
}

/** A list that grows while it is filled takes three times the memory of its items. */
const listOf = memoised((pages: Pages<object>): readonly object[] => {
  const [first, second] = pages;
  if (first !== undefined && second === undefined) return first;
  const items = new Array<object>(pages.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const page of pages) for (const item of page) items[at++] = item;
  return items;
});

/** The objects of only one of two lists. */
export interface ListChange<Item> {
  readonly removed: readonly Item[];
  readonly added: readonly Item[];
}

const noChange: ListChange<never> = { removed: [], added: [] };

/** Lists that differ in more objects than this, or by more than a quarter, are computed as a whole. */
const maxChanged = 256;

/** Returns the difference between two lists in which no object occurs twice, whatever their order. */
export function differenceBetween<Item>(
  before: readonly Item[],
  after: readonly Item[],
  { start, end }: CommonEnds = commonEnds(before, after),
): ListChange<Item> {
  if (before === after) return noChange;
  return differenceOf(
    ...withoutCommonItems(before.slice(start, before.length - end), after.slice(start, after.length - end)),
  );
}

/** The number of items with which two lists begin alike, and of the further ones with which they end alike. */
interface CommonEnds {
  readonly start: number;
  readonly end: number;
}

/** Compares by identity. */
export function commonEnds(a: readonly unknown[], b: readonly unknown[]): CommonEnds {
  if (a === b) return { start: a.length, end: 0 };
  const least = Math.min(a.length, b.length);
  let start = 0;
  while (start < least && a[start] === b[start]) start++;
  let end = 0;
  while (end < least - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  return { start, end };
}

/**
 * Omits items that both lists have in the same order, as far as each difference is one item. To look up an object in a
 * set takes much longer than to compare two.
 */
function withoutCommonItems<Item>(before: readonly Item[], after: readonly Item[]): [Item[], Item[]] {
  const ofBefore: Item[] = [];
  const ofAfter: Item[] = [];
  let [atBefore, atAfter] = [0, 0];
  while (atBefore < before.length && atAfter < after.length) {
    const item = before[atBefore] as Item;
    const other = after[atAfter] as Item;
    if (item === other) {
      atBefore++;
      atAfter++;
    } else if (before[atBefore + 1] === other) {
      ofBefore.push(item);
      atBefore++;
    } else if (after[atAfter + 1] === item) {
      ofAfter.push(other);
      atAfter++;
    } else {
      ofBefore.push(item);
      ofAfter.push(other);
      atBefore++;
      atAfter++;
    }
  }
  return [ofBefore.concat(before.slice(atBefore)), ofAfter.concat(after.slice(atAfter))];
}

function differenceOf<Item>(before: readonly Item[], after: readonly Item[]): ListChange<Item> {
  const known = new Set(before);
  const added = after.filter((item) => !known.delete(item));
  return { removed: [...known], added };
}

/** As `differenceBetween`; undefined if the difference is large. */
export function changeBetween<Item>(
  before: readonly Item[],
  after: readonly Item[],
  ends?: CommonEnds,
): ListChange<Item> | undefined {
  const most = Math.min(maxChanged, Math.ceil(after.length / 4));
  if (Math.abs(before.length - after.length) > most) return undefined;
  const { removed, added } = differenceBetween(before, after, ends);
  return removed.length > most || added.length > most ? undefined : { removed, added };
}

/** The last lists that began with an object, with their values, the last used one first. */
type KnownLists<Item, Value> = readonly KnownList<Item, Value>[];

interface KnownList<Item, Value> {
  readonly items: readonly Item[];
  readonly value: Value;
}

/** As for `sameList`. */
const maxLists = 2;

/**
 * Returns a function that computes a value of a list, from the value of an earlier list if there is one that differs in
 * few objects. No object may occur twice in a list, and the value must not depend on the order of the list.
 *
 * @param update returns what `compute` returns for `items`.
 */
export function derived<Item extends object, Value>(
  compute: (items: readonly Item[]) => Value,
  update: (before: Value, change: ListChange<Item>) => Value,
): (items: readonly Item[]) => Value {
  const steps = derivedInSteps<Item, Value>(function* (items) {
    yield;
    return compute(items);
  }, update);
  return (items) => runToEnd(steps(items));
}

/** As `derived`, where the value of a list as a whole is computed in steps. */
function derivedInSteps<Item extends object, Value>(
  compute: (items: readonly Item[]) => Steps<Value>,
  update: (before: Value, change: ListChange<Item>) => Value,
): (items: readonly Item[]) => Steps<Value> {
  const known = new WeakMap<Item, KnownLists<Item, Value>>();
  const ofEmpty = runToEnd(compute([]));
  const follow = function* (items: readonly Item[], lists: KnownLists<Item, Value>): Steps<Value> {
    for (const { list, ends } of nearestFirst(lists, items)) {
      const change = changeBetween(list.items, items, ends);
      if (change === undefined) continue;
      const isSame = change.removed.length + change.added.length === 0;
      return isSame ? list.value : update(list.value, change);
    }
    return yield* compute(items);
  };
  return function* (items) {
    const [first] = items;
    if (first === undefined) return ofEmpty;
    const lists = known.get(first) ?? [];
    const found = lists.find((each) => each.items === items);
    const used = found ?? { items, value: yield* follow(items, lists) };
    if (used !== lists[0]) known.set(first, [used, ...lists.filter((each) => each !== used)].slice(0, maxLists));
    return used.value;
  };
}

/** Returns a function that sorts lists. Only equal objects may be equal to `compare`. */
export function sortedBy<Item extends object>(
  compare: (a: Item, b: Item) => number,
): (items: readonly Item[]) => readonly Item[] {
  return derived<Item, readonly Item[]>(
    (items) => items.toSorted(compare),
    (before, change) => sortedAfter(before, change, compare),
  );
}

/** Returns a sorted list without the removed items, and with the added ones in their places. */
function sortedAfter<Item>(
  before: readonly Item[],
  { removed, added }: ListChange<Item>,
  compare: (a: Item, b: Item) => number,
): readonly Item[] {
  const sorted = without(before, removed);
  for (const item of added) sorted.splice(placeOf(item, sorted, compare), 0, item);
  return sorted;
}

/** To look up an object in a set takes as long as some ten comparisons. */
const maxCompared = 8;

function without<Item>(items: readonly Item[], removed: readonly Item[]): Item[] {
  if (removed.length > maxCompared) {
    const leaving = new Set(removed);
    return items.filter((item) => !leaving.has(item));
  }
  const left = items.slice();
  for (const item of removed) {
    const at = left.indexOf(item);
    if (at !== -1) left.splice(at, 1);
  }
  return left;
}

/** Returns the index in a sorted list before which an item belongs. */
function placeOf<Item>(item: Item, sorted: readonly Item[], compare: (a: Item, b: Item) => number): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    const other = sorted[middle];
    if (other !== undefined && compare(other, item) <= 0) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** The lists may have the same objects in several orders, of which one is that of `items`. */
function nearestFirst<List extends { readonly items: readonly unknown[] }>(
  lists: readonly List[],
  items: readonly unknown[],
): readonly { readonly list: List; readonly ends: CommonEnds }[] {
  return lists
    .map((list) => ({ list, ends: commonEnds(list.items, items) }))
    .sort((a, b) => b.ends.start + b.ends.end - (a.ends.start + a.ends.end));
}

/** Items to group in a step. */
const itemsPerStep = 64;

/**
 * Returns a function that groups the items of lists by each of their keys, which are distinct, and sorts each group. A
 * group stays the same list while none of its items changes.
 */
export function groupedBy<Item extends object>(
  keysOf: (item: Item) => readonly string[],
  compare: (a: Item, b: Item) => number,
): (items: readonly Item[]) => Steps<ReadonlyMap<string, readonly Item[]>> {
  const groupsOf = function* (items: readonly Item[]): Steps<Map<string, Item[]>> {
    const groups = new Map<string, Item[]>();
    for (const [at, item] of items.entries()) {
      for (const key of keysOf(item)) {
        const group = groups.get(key);
        if (group === undefined) groups.set(key, [item]);
        else group.push(item);
      }
      if (at % itemsPerStep === 0) yield;
    }
    return groups;
  };
  const sorted = (group: Item[]) => sameList(group.sort(compare));
  return derivedInSteps<Item, ReadonlyMap<string, readonly Item[]>>(
    function* (items) {
      const groups = new Map<string, readonly Item[]>();
      for (const [key, group] of yield* groupsOf(items)) {
        groups.set(key, sorted(group));
        if (groups.size % itemsPerStep === 0 || group.length > itemsPerStep) yield;
      }
      return groups;
    },
    (before, { removed, added }) => {
      const groups = new Map(before);
      const leaving = runToEnd(groupsOf(removed));
      const joining = runToEnd(groupsOf(added));
      for (const key of new Set([...leaving.keys(), ...joining.keys()])) {
        const change = { removed: leaving.get(key) ?? [], added: joining.get(key) ?? [] };
        const group = sortedAfter(groups.get(key) ?? [], change, compare);
        if (group.length === 0) groups.delete(key);
        else groups.set(key, sameList(group));
      }
      return groups;
    },
  );
}
