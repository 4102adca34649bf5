import type { MetricsSnapshot } from "@gatewayproxy/runtime/metrics";
import { expect, test } from "vitest";
import { requestMetrics } from "../telemetry/metric-table.ts";
import { readTraffic } from "./live-traffic.ts";

type Metric = keyof typeof requestMetrics;

function snapshot(families: Partial<Record<Metric, readonly (readonly [string, number])[]>>): MetricsSnapshot {
  return Object.entries(families).map(([metric, series]) => ({
    name: requestMetrics[metric as Metric].name,
    series: series.map(([labels, value]) => ({
      labels: labels.split(" ").map((each) => each.slice(1)),
      data: [value],
    })),
  }));
}

test("before the first request everything is 0", () => {
  const traffic = readTraffic([]);
  expect(traffic).toMatchObject({ requests: 0, statuses: [], reasons: [], denials: [], routes: [], routesLeftOut: 0 });
  expect(traffic.durations.requests).toEqual([...traffic.durations.boundsSeconds, "+Inf"].map(() => 0));
});

test("requests are added up by status, by reason and by route", () => {
  // Each label begins with a mark, as some are empty.
  const traffic = readTraffic(
    snapshot({
      requests: [
        ["-l -default/a -b -GET -200 -", 5],
        ["-l -default/a -b -POST -200 -", 2],
        ["-l -default/a - -GET -429 -RateLimited", 3],
        ["-l -default/b -b -GET -503 -NoReadyEndpoint", 9],
        ["-l - - -GET -404 -RouteNotFound", 1],
      ],
      tokens: [
        ["-default/a -b -m1 -input", 10],
        ["-default/a -b -m2 -input", 20],
        ["-default/a -b -m1 -output", 5],
      ],
    }),
  );
  expect(traffic).toMatchObject({
    requests: 20,
    statuses: [
      { status: 200, requests: 7 },
      { status: 404, requests: 1 },
      { status: 429, requests: 3 },
      { status: 503, requests: 9 },
    ],
    reasons: [
      { reason: "NoReadyEndpoint", requests: 9 },
      { reason: "RateLimited", requests: 3 },
      { reason: "RouteNotFound", requests: 1 },
    ],
    tokens: { input: 30, output: 5, other: 0 },
    routes: [
      { route: "default/a", requests: 10, clientErrors: 3, serverErrors: 0, denied: 3, tokens: 35 },
      { route: "default/b", requests: 9, clientErrors: 0, serverErrors: 9, denied: 0, tokens: 0 },
      { route: "", requests: 1, clientErrors: 1, serverErrors: 0, denied: 0, tokens: 0 },
    ],
  });
});

test("denials are listed for limits that deny, or would, those with the most first", () => {
  const { denials } = readTraffic(
    snapshot({
      limitDecisions: [
        ["-p -0 -t -requests -allowed", 100],
        ["-p -0 -t -requests -denied", 2],
        ["-p -1 -t -tokens -shadow_denied", 7],
        ["-q -0 -t -tokens -allowed", 50],
        ["-q -0 -t -tokens -denied", 0],
      ],
      globalLimitDecisions: [
        ["-g -t -denied -service", 3],
        ["-g -t -denied -cache", 4],
      ],
    }),
  );
  expect(denials).toEqual([
    { policy: "g", target: "t", denied: 7, shadowDenied: 0, notApplied: 0 },
    { policy: "p", target: "t", entry: 0, counts: "requests", denied: 2, shadowDenied: 0, notApplied: 0 },
    { policy: "p", target: "t", entry: 1, counts: "tokens", denied: 0, shadowDenied: 7, notApplied: 0 },
  ]);
});

test("limits are identified by name or index, also those that did not apply", () => {
  const { denials } = readTraffic(
    snapshot({
      limitDecisions: [
        ["-default/p -0 -HTTPRoute/default/r -requests -denied", 1],
        ["-default/p -daily -HTTPRoute/default/r -requests -denied", 2],
        ["-default/p -daily -HTTPRoute/default/r -requests -allowed", 9],
        ["-default/p -ceiling -HTTPRoute/default/r -requests -not_applied", 4],
        ["-default/p -idle -HTTPRoute/default/r -requests -allowed", 4],
      ],
      globalLimitDecisions: [["-default/p -HTTPRoute/default/r -denied -service", 3]],
    }),
  );
  const limit = { policy: "default/p", target: "HTTPRoute/default/r" };
  expect(denials).toEqual([
    { ...limit, denied: 3, shadowDenied: 0, notApplied: 0 },
    { ...limit, name: "daily", counts: "requests", denied: 2, shadowDenied: 0, notApplied: 0 },
    { ...limit, entry: 0, counts: "requests", denied: 1, shadowDenied: 0, notApplied: 0 },
    { ...limit, name: "ceiling", counts: "requests", denied: 0, shadowDenied: 0, notApplied: 4 },
  ]);
});
