/** Entries that share the counter of a bucket, and limits that replicas share. */
import { describe, expect, test } from "vitest";
import type { RequestView } from "../../cel/request-view.ts";
import type { LocalLimit } from "../../ir/limit.ts";
import { type LimitSet, compileLimits } from "./local-limiter.ts";
import { allowed, denied, freshTable, request, requestsLimit, tokensLimit } from "./testing/local-limits.ts";

const minute = 60_000;
const shared = { bucket: "team", counter: "bucket default/team requests in windows of 1 Minutes" };

function limiter(...limits: readonly LocalLimit[]): LimitSet {
  return compileLimits(limits, freshTable());
}

function withHeader(name: string, value: string): RequestView {
  return { ...request, rawHeaders: [name, value] };
}

describe("entries of a bucket", () => {
  test("of several rules count in one counter, and each compares it with its own limit", () => {
    const table = freshTable();
    const gold = compileLimits([requestsLimit({ ...shared, amount: 5, target: "HTTPRoute/default/gold" })], table);
    const free = compileLimits([requestsLimit({ ...shared, amount: 2, target: "HTTPRoute/default/free" })], table);
    allowed(free.decide(request, 0));
    allowed(gold.decide(request, 0));
    expect(denied(free.decide(request, 0)).state).toEqual({ limit: 2, remaining: 0, resetSeconds: 60 });
    for (let at = 0; at < 3; at++) allowed(gold.decide(request, 0));
    denied(gold.decide(request, 0));
    expect(allowed(free.decide(request, minute)).state?.remaining).toBe(1);
    expect(allowed(gold.decide(request, minute)).state?.remaining).toBe(3);
  });

  test("of one rule count a request once, at the cost of the first that allows it", () => {
    const set = limiter(
      requestsLimit({ ...shared, amount: 10, entry: 0, cost: "3" }),
      requestsLimit({ ...shared, amount: 8, entry: 1 }),
    );
    const { state, reservation } = allowed(set.decide(request, 0));
    expect(state).toEqual({ limit: 8, remaining: 5, resetSeconds: 60 });
    allowed(set.decide(request, 0));
    reservation.refund(1);
    expect(allowed(set.decide(request, 1)).state).toEqual({ limit: 8, remaining: 2, resetSeconds: 60 });
  });

  test("of one rule are denied by the smallest limit, and nothing is counted then", () => {
    const table = freshTable();
    const set = compileLimits(
      [requestsLimit({ ...shared, amount: 3, entry: 0 }), requestsLimit({ ...shared, amount: 1, entry: 1 })],
      table,
    );
    allowed(set.decide(request, 0));
    expect(denied(set.decide(request, 0)).limit.entry).toBe(1);
    expect([...table.entries(0)].map(({ used }) => used)).toEqual([1]);
  });

  test("count where a shadow entry before them is over its limit", () => {
    const table = freshTable();
    const set = compileLimits(
      [
        requestsLimit({ ...shared, amount: 1, entry: 0, mode: "Shadow" }),
        requestsLimit({ ...shared, amount: 5, entry: 1 }),
      ],
      table,
    );
    for (let at = 0; at < 5; at++) allowed(set.decide(request, 0));
    denied(set.decide(request, 0));
    expect([...table.entries(0)].map(({ used }) => used)).toEqual([5]);
  });

  test("of tokens are charged once", () => {
    const bucket = { ...shared, counter: "bucket default/team tokens" };
    const set = limiter(tokensLimit({ ...bucket, amount: 100, entry: 0 }), tokensLimit({ ...bucket, entry: 1 }));
    allowed(set.decide(request, 0)).reservation.charge(30, 0);
    expect(allowed(set.decide(request, 0)).state).toEqual({ limit: 100, remaining: 70, resetSeconds: 60 });
  });

  test("with different keys share a counter per value", () => {
    const table = freshTable();
    const byUser = compileLimits([requestsLimit({ ...shared, amount: 1, key: 'request.headers["x-user"]' })], table);
    const byName = compileLimits([requestsLimit({ ...shared, amount: 1, key: 'request.headers["x-name"]' })], table);
    allowed(byUser.decide(withHeader("x-user", "ann"), 0));
    denied(byName.decide(withHeader("x-name", "ann"), 0));
    allowed(byName.decide(withHeader("x-name", "ben"), 0));
  });
});

describe("windows of days and weeks", () => {
  test.each([
    ["a day", requestsLimit({ amount: 1, unit: "Days" }), 86_400],
    ["a week", requestsLimit({ amount: 1, unit: "Weeks" }), 604_800],
    ["1,000 weeks", requestsLimit({ amount: 1, unit: "Weeks", unitCount: 1_000 }), 604_800_000],
    ["15 minutes", requestsLimit({ amount: 1, unit: "Minutes", unitCount: 15 }), 900],
  ])("last %s from the first request on", (_, limit, seconds) => {
    const table = freshTable();
    const set = compileLimits([limit], table);
    allowed(set.decide(request, 5_000));
    expect(denied(set.decide(request, 6_000)).retryAfterSeconds).toBe(seconds - 1);
    expect([...table.entries(6_000)]).toMatchObject([{ used: 1, resetSeconds: seconds - 1 }]);
    denied(set.decide(request, 5_000 + seconds * 1_000 - 1));
    allowed(set.decide(request, 5_000 + seconds * 1_000));
  });
});

test("a limit by expression is divided by the replicas that share it, rounded down to at least 1", () => {
  const amountFrom = 'int(request.headers["x-limit"])';
  const set = limiter(requestsLimit({ amount: 4, amountFrom, replicas: 3 }));
  const limitOf = (value: string) => allowed(set.decide(withHeader("x-limit", value), 0)).state?.limit;
  expect([limitOf("11"), limitOf("100")]).toEqual([3, 33]);
  expect(denied(set.decide(withHeader("x-limit", "1"), 0)).state.limit).toBe(1);
  expect(denied(set.decide(withHeader("x-limit", "0"), 0)).state.limit).toBe(0);
});
