import type { Traffic } from "@gatewayproxy/admin-api/traffic";
import { describe, expect, test } from "vitest";
import { deniedOf, growth, percentileMs, remember, requestsOf, type Span, spanBefore } from "./traffic-history.ts";

const nothing: Traffic = {
  at: "2026-11-22T10:00:00.000Z",
  startedAt: "2026-11-22T09:00:00.000Z",
  uptimeSeconds: 0,
  requests: 0,
  requestsInProgress: 0,
  openConnections: 0,
  statuses: [],
  reasons: [],
  durations: { boundsSeconds: [0.1, 1], requests: [0, 0, 0] },
  denials: [],
  tokens: { input: 0, output: 0, other: 0, estimatedResponses: 0 },
  routes: [],
  routesLeftOut: 0,
};

const at = (uptimeSeconds: number, requests = 0): Traffic => ({ ...nothing, uptimeSeconds, requests });
const times = (history: readonly Traffic[]): readonly number[] => history.map(({ uptimeSeconds }) => uptimeSeconds);

describe("remember", () => {
  test("keeps five minutes", () => {
    const history = [0, 100, 200, 301].reduce((before: readonly Traffic[], time) => remember(before, at(time)), []);
    expect(times(history)).toEqual([100, 200, 301]);
  });

  test("starts again after a restart of the proxy, even with an earlier start time", () => {
    const restarted = { ...at(50), startedAt: "2026-11-22T10:00:00.000Z" };
    expect(remember([at(5), at(10)], restarted)).toEqual([restarted]);
  });

  test("ignores a response that arrives after a later one", () => {
    expect(times(remember([at(5), at(10)], at(8)))).toEqual([5, 10]);
  });
});

describe("spanBefore", () => {
  const history = [at(0), at(2), at(4.1), at(62)];

  test("spans the given time, or as much of it as there is", () => {
    expect(spanBefore(history, 2, 2)).toEqual({ from: at(2), to: at(4.1), seconds: 4.1 - 2 });
    expect(spanBefore(history, 60)).toMatchObject({ from: at(0), seconds: 62 });
    expect(spanBefore(history, 60, 1)).toMatchObject({ from: at(0), to: at(2) });
  });

  test("is undefined before a second response, or after a longer gap", () => {
    expect(spanBefore([], 60)).toBeUndefined();
    expect(spanBefore([at(3)], 60)).toBeUndefined();
    expect(spanBefore(history, 10)).toBeUndefined();
  });
});

test("a figure that shrinks has a growth of 0", () => {
  const span: Span = { from: at(0, 7), to: at(2, 5), seconds: 2 };
  expect(growth(span, ({ requests }) => requests)).toBe(0);
});

test("statuses are added up by class, and denials are requests that limits denied", () => {
  const traffic: Traffic = {
    ...nothing,
    statuses: [0, 101, 200, 204, 404, 429, 503].map((status, index) => ({ status, requests: 10 ** index })),
    reasons: [
      { reason: "RouteNotFound", requests: 3 },
      { reason: "RateLimited", requests: 2 },
    ],
  };
  const counts = (["none", "1xx", "2xx", "3xx", "4xx", "5xx"] as const).map((each) => requestsOf(each)(traffic));
  expect(counts).toEqual([1, 10, 1_100, 0, 110_000, 1_000_000]);
  expect(deniedOf(traffic)).toBe(2);
});

describe("percentileMs", () => {
  const spanOf = (...requests: readonly number[]): Span => {
    const to: Traffic = { ...at(2), durations: { ...nothing.durations, requests } };
    return { from: nothing, to, seconds: 2 };
  };

  test("interpolates within a bucket", () => {
    expect(percentileMs(spanOf(10, 0, 0), 0.5)).toBeCloseTo(50);
    expect(percentileMs(spanOf(50, 50, 0), 0.5)).toBeCloseTo(100);
    expect(percentileMs(spanOf(50, 50, 0), 0.99)).toBeCloseTo(100 + 900 * 0.98);
  });

  test("is the last bound beyond it, and undefined without requests", () => {
    expect(percentileMs(spanOf(0, 0, 4), 0.99)).toBe(1_000);
    expect(percentileMs(spanOf(0, 0, 0), 0.5)).toBeUndefined();
  });
});
