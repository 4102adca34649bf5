import { describe, expect, test } from "vitest";
import type { CounterId } from "./counter-id.ts";
import { CounterTable, createCounters, defaultCounters } from "./counter-table.ts";
import { freshTable, openWindow, requestsLimit, sameClock } from "./testing/local-limits.ts";
import { budgetOf, settle, type Window } from "./window.ts";

const limit = requestsLimit();
const windows = budgetOf(limit, sameClock).windows;

function idOf(table: CounterTable, key?: string, counter = limit.counter): CounterId {
  return table.counterId(table.entryId({ ...limit, counter }), key);
}

/** Counts as one request would, without deciding. */
function use(table: CounterTable, id: CounterId, nowMs: number, used = 1): void {
  const slot = table.find(id);
  if (slot === -1) table.claim(id, windows, openWindow(used, nowMs), nowMs);
  else table.store(slot, windows, openWindow(used, nowMs), nowMs);
}

function read(table: CounterTable, id: CounterId): Window {
  const window = openWindow(0);
  table.load(table.find(id), windows, window);
  return window;
}

describe("finding a counter", () => {
  test("a counter that was never used has no slot and is full", () => {
    const table = freshTable();
    expect(table.find(idOf(table))).toBe(-1);
    expect(read(table, idOf(table)).used).toBe(0);
  });

  test("one thread finds what another one stores", () => {
    const memory = createCounters(64, 2);
    const one = new CounterTable(memory, 1);
    const other = new CounterTable(memory, 2);
    use(one, idOf(one, "ann"), 7, 3);
    expect(read(other, idOf(other, "ann"))).toMatchObject({ used: 3, startMs: 7 });
  });

  test("each value of a key, the missing value, each entry and each key expression has its own counter", () => {
    const table = freshTable();
    const ids = [
      idOf(table),
      idOf(table, ""),
      idOf(table, "ann"),
      idOf(table, "ben"),
      idOf(table, "ann", "another entry"),
      table.counterId(table.entryId({ ...limit, key: "route" }), "ann"),
    ];
    ids.forEach((id, at) => use(table, id, at, at + 1));
    expect(ids.map((id) => read(table, id).used)).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test("each long value of a key has its own counter in each entry, also after many others", () => {
    const table = freshTable(256);
    const long = (at: number): string => `${"x".repeat(60_000)}${at}`;
    const ids = () => Array.from({ length: 40 }, (_, at) => idOf(table, long(at >> 1), at % 2 === 0 ? "a" : "b"));
    ids().forEach((id, at) => use(table, id, 0, at + 1));
    expect(ids().map((id) => read(table, id).used)).toEqual(Array.from({ length: 40 }, (_, at) => at + 1));
  });

  test("a client cannot compute a collision: two tables place the same counters differently", () => {
    const [one, other] = [freshTable(), freshTable()];
    expect(idOf(one, "ann").a).not.toBe(idOf(other, "ann").a);
    expect(one.labelOf(limit)).not.toBe(other.labelOf(limit));
  });

  test(`holds ${defaultCounters} counters in little more than 48 MiB by default`, () => {
    const memory = createCounters(defaultCounters, 2);
    expect(new CounterTable(memory, 1).capacity).toBe(defaultCounters);
    expect(memory.byteLength).toBeLessThan(48.1 * 2 ** 20);
  });

  test.each([1, 16, 17, 250, 4096])("a table for %d counters has room for as many", (counters) => {
    const { capacity } = freshTable(counters);
    expect(capacity).toBeGreaterThanOrEqual(counters);
    expect(capacity).toBeLessThan(counters + 16);
  });

  test.each([0, -1, 1.5, NaN, 2 ** 25])("a table for %d counters is rejected", (counters) => {
    expect(() => createCounters(counters, 2)).toThrow(/must have 1 to 16777216/);
  });
});

describe("a full bucket", () => {
  /** A table of a single bucket, filled. */
  function fullBucket(): { table: CounterTable; ids: readonly CounterId[] } {
    const table = freshTable(16);
    const ids = Array.from({ length: 16 }, (_, at) => idOf(table, `key-${at}`));
    ids.forEach((id, at) => use(table, id, at));
    return { table, ids };
  }

  test("reuses the slot of a counter whose window has closed", () => {
    const { table, ids } = fullBucket();
    ids.forEach((id, at) => at !== 9 && use(table, id, 30_000 + at));
    use(table, idOf(table, "new"), 60_010); // The window of key-9 began at 9.
    expect(ids.filter((id) => table.find(id) === -1)).toEqual([ids[9]]);
    expect(table.evictions).toBe(0);
  });

  test("evicts the keyed counter used longest ago when all are open, and counts the eviction", () => {
    const { table, ids } = fullBucket();
    use(table, ids[0] ?? idOf(table), 100);
    use(table, idOf(table, "new"), 101);
    expect(ids.filter((id) => table.find(id) === -1)).toEqual([ids[1]]);
    expect(table.evictions).toBe(1);
  });

  test("keeps the counter of an entry without key however long it was not used", () => {
    const table = freshTable(16);
    use(table, idOf(table), 0);
    for (let at = 1; at <= 100; at++) use(table, idOf(table, `key-${at}`), at);
    expect(read(table, idOf(table)).used).toBe(1);
    expect(table.evictions).toBe(85);
  });

  test("evicts a counter without key only if no other is left", () => {
    const table = freshTable(16);
    for (let at = 0; at < 16; at++) use(table, idOf(table, undefined, `entry ${at}`), at);
    use(table, idOf(table, "ann"), 16);
    expect(table.find(idOf(table, undefined, "entry 0"))).toBe(-1);
    expect(table.find(idOf(table, undefined, "entry 1"))).not.toBe(-1);
  });
});

describe("listing the counters", () => {
  test("shows entry, key, use and reset of each open counter, at the requested time", () => {
    const table = freshTable();
    use(table, idOf(table), 0, 4);
    use(table, idOf(table, "ann"), 30_000, 12);
    expect([...table.entries(40_000)].toSorted((one, other) => one.used - other.used)).toEqual([
      { entry: table.labelOf(limit), key: undefined, used: 4, held: 0, resetSeconds: 20 },
      { entry: table.labelOf(limit), key: "ann", used: 12, held: 0, resetSeconds: 50 },
    ]);
    expect([...table.entries(95_000)]).toEqual([
      { entry: table.labelOf(limit), key: "ann", used: 2, held: 0, resetSeconds: 55 },
    ]);
    expect([...table.entries(200_000)]).toEqual([]);
  });

  test("shows the first 64 bytes of a long key, without half a character", () => {
    const table = freshTable();
    use(table, idOf(table, `${"a".repeat(63)}é and more`), 0);
    use(table, idOf(table, ""), 0);
    expect([...table.entries(1)].map((counter) => counter.key).toSorted()).toEqual(["", "a".repeat(63)]);
  });

  test("does not wait for a lock", () => {
    const table = freshTable(16);
    use(table, idOf(table), 0);
    table.lock([0]);
    expect([...table.entries(1)]).toHaveLength(1);
    table.unlock([0]);
  });

  test("changes nothing", () => {
    const table = freshTable();
    use(table, idOf(table), 0, 12);
    expect([...table.entries(60_000)].map(({ used }) => used)).toEqual([2]);
    const window = read(table, idOf(table));
    expect(window).toMatchObject({ used: 12, startMs: 0 });
    settle(window, windows, 60_000);
    expect(window.used).toBe(2);
  });
});
