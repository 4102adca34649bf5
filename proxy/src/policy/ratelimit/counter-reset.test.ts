/** Resets of counters by an operator, with requests in progress. */
import { describe, expect, test } from "vitest";
import type { LocalLimit, LimitWindow } from "../../ir/limit.ts";
import { CounterTable, createCounters } from "./counter-table.ts";
import { compileLimits, type LimitSet } from "./local-limiter.ts";
import {
  type AllowedRequest,
  allowed,
  concurrentLimit,
  request,
  requestOf,
  requestsLimit,
  sameClock,
  tokensLimit,
} from "./testing/local-limits.ts";

const key = 'request.headers["x-api-key"]';
const nowMs = 1_000_000;

function start(limit: LocalLimit, counters = 1_024) {
  const table = new CounterTable(createCounters(counters, 2), 1, sameClock);
  return { table, set: compileLimits([limit], table) };
}

function remaining(set: LimitSet, client?: string): number | undefined {
  return allowed(set.decide(client === undefined ? request : requestOf(client), nowMs)).state?.remaining;
}

/** Resets all counters of the limit and returns their number. */
function reset(table: CounterTable, limit: LocalLimit): number {
  return [...table.reset(new Set([table.labelOf(limit)]), nowMs)].filter((label) => label !== undefined).length;
}

const kinds: readonly (readonly [string, LimitWindow | undefined])[] = [
  ["Fixed", undefined],
  ["Sliding", { kind: "Sliding" }],
  ["Calendar", { kind: "Calendar", timeZone: "UTC" }],
];

describe.each(kinds)("a counter of a %s window", (_, window) => {
  const limit = requestsLimit({ amount: 10, unit: "Days", ...(window !== undefined && { window }) });

  test("has its full budget after a reset", () => {
    const { table, set } = start(limit);
    for (let sent = 0; sent < 10; sent++) allowed(set.decide(request, nowMs));
    expect(set.decide(request, nowMs).kind).toBe("denied");
    expect(reset(table, limit)).toBe(1);
    expect(remaining(set)).toBe(9);
  });

  test("loses no unit of the time after the reset to a refund of the time before it, in the same millisecond", () => {
    const { table, set } = start(limit);
    const before = Array.from({ length: 3 }, () => allowed(set.decide(request, nowMs)));
    reset(table, limit);
    const after = [allowed(set.decide(request, nowMs)), allowed(set.decide(request, nowMs))];
    for (const { reservation } of before) reservation.refund(nowMs);
    expect(remaining(set)).toBe(7);
    for (const { reservation } of after) reservation.refund(nowMs);
    expect(remaining(set)).toBe(8);
  });

  test("never has more than its budget when the refund comes before the next request", () => {
    const { table, set } = start(limit);
    const before = allowed(set.decide(request, nowMs));
    reset(table, limit);
    before.reservation.refund(nowMs);
    expect(remaining(set)).toBe(9);
  });

  test("keeps refunds apart also when another counter took its slot after the reset", () => {
    const keyed = { ...limit, key };
    const { table, set } = start(keyed, 16);
    const before: AllowedRequest[] = [];
    for (let client = 0; client < 16; client++) {
      before.push(allowed(set.decide(requestOf(`client ${client}`), nowMs)));
    }
    expect(reset(table, keyed)).toBe(16);
    for (let client = 16; client < 32; client++) allowed(set.decide(requestOf(`client ${client}`), nowMs));
    expect(table.evictions).toBe(0);
    allowed(set.decide(requestOf("client 0"), nowMs));
    before[0]?.reservation.refund(nowMs);
    expect(remaining(set, "client 0")).toBe(8);
  });

  test("keeps refunds apart also when more counters were reset than there are epochs", () => {
    const { table, set } = start(limit);
    const id = table.counterId(table.entryId(limit), undefined);
    allowed(set.decide(request, nowMs));
    for (let at = 0; at < 65_535; at++) table.resetOne(id, nowMs);
    const before = allowed(set.decide(request, nowMs));
    table.resetOne(id, nowMs);
    allowed(set.decide(request, nowMs));
    before.reservation.refund(nowMs);
    expect(remaining(set)).toBe(8);
  });
});

test("tokens of a response that began before the reset count after it", () => {
  const limit = tokensLimit({ amount: 100, unit: "Hours" });
  const { table, set } = start(limit);
  const before = allowed(set.decide(request, nowMs));
  before.reservation.charge(60, nowMs);
  reset(table, limit);
  before.reservation.charge(30, nowMs);
  expect(remaining(set)).toBe(70);
});

test("requests in progress stay counted", () => {
  const limit = concurrentLimit({ amount: 2 });
  const { table, set } = start(limit);
  allowed(set.decide(request, nowMs));
  allowed(set.decide(request, nowMs));
  expect(reset(table, limit)).toBe(0);
  expect(table.resetOne(table.counterId(table.entryId(limit), undefined), nowMs)).toBe(false);
  expect(set.decide(request, nowMs).kind).toBe("denied");
});

test("counters of other entries and of other values keep their units", () => {
  const table = new CounterTable(createCounters(1_024, 2), 1, sameClock);
  const [one, other] = [requestsLimit({ key }), requestsLimit({ key, counter: "other" })];
  const [ofOne, ofOther] = [compileLimits([one], table), compileLimits([other], table)];
  for (const set of [ofOne, ofOther]) {
    for (const client of ["ann", "ben"]) allowed(set.decide(requestOf(client), nowMs));
  }
  expect(table.resetOne(table.counterId(table.entryId(one), "ann"), nowMs)).toBe(true);
  expect([remaining(ofOne, "ann"), remaining(ofOne, "ben"), remaining(ofOther, "ann")]).toEqual([9, 8, 8]);
  expect(reset(table, one)).toBe(2);
  expect([remaining(ofOne, "ann"), remaining(ofOne, "ben"), remaining(ofOther, "ann")]).toEqual([9, 9, 7]);
});

test("a counter without units is reset, and not counted", () => {
  const limit = requestsLimit();
  const { table, set } = start(limit);
  expect(reset(table, limit)).toBe(0);
  allowed(set.decide(request, nowMs)).reservation.refund(nowMs);
  expect(reset(table, limit)).toBe(0);
});
