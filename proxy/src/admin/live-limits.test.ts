import { expect, test } from "vitest";
import type { ServiceState } from "../policy/ratelimit/global/service-client.ts";
import type { LocalLimit } from "../ir/limit.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { mergeServices, nameCounters } from "./live-limits.ts";

const healthy: ServiceState = {
  service: "address/rl:8081",
  breaker: "closed",
  sinceMs: Date.UTC(2026, 10, 21, 10),
  failuresInARow: 0,
  chargesBuffered: 0,
  denialsCached: 2,
  limitsLearned: 1,
};

test("failures of a worker before another got a response do not count", () => {
  const failing = (minute: number, failuresInARow: number): ServiceState => ({
    ...healthy,
    lastError: { message: "away", atMs: Date.UTC(2026, 10, 21, 10, minute) },
    failuresInARow,
  });
  const responding: ServiceState = { ...healthy, respondedMs: Date.UTC(2026, 10, 21, 10, 5) };
  expect(mergeServices([[failing(4, 3)], [responding]])).toMatchObject([{ failuresInARow: 0 }]);
  expect(mergeServices([[failing(6, 3)], [failing(7, 2)], [responding]])).toMatchObject([{ failuresInARow: 3 }]);
});

function away(minute: number): ServiceState {
  const atMs = Date.UTC(2026, 10, 21, 10, minute);
  const lastError = { message: `error ${minute}`, atMs };
  return { ...healthy, breaker: "open", sinceMs: atMs, cause: "away", lastError, failuresInARow: minute };
}

test("a service is unavailable since its first worker reported it, with the newest error, the sums of all workers, and the limits that all know", () => {
  expect(mergeServices([[healthy], [away(7)], [away(3)]])).toEqual([
    {
      service: "address/rl:8081",
      breaker: "open",
      openOn: 2,
      workers: 3,
      since: "2026-11-21T10:03:00.000Z",
      cause: "away",
      lastError: { message: "error 7", at: "2026-11-21T10:07:00.000Z" },
      failuresInARow: 7,
      chargesBuffered: 0,
      denialsCached: 6,
      limitsLearned: 1,
    },
  ]);
});

test("a service has recovered since its last worker reported it, and its last error stays known", () => {
  const { sinceMs, lastError } = away(9);
  const back: ServiceState = { ...healthy, sinceMs, ...(lastError !== undefined && { lastError }) };
  expect(mergeServices([[healthy, { ...healthy, service: "address/a:1" }], [back]])).toMatchObject([
    { service: "address/a:1", workers: 1, since: "2026-11-21T10:00:00.000Z" },
    {
      breaker: "closed",
      openOn: 0,
      since: "2026-11-21T10:09:00.000Z",
      lastError: { message: "error 9", at: "2026-11-21T10:09:00.000Z" },
    },
  ]);
});

/** A snapshot with one rule under these limits. */
function underLimits(...limits: readonly LocalLimit[]): Snapshot {
  const binds = [{ listeners: [{ routes: [{ rules: [{ limits }] }] }] }];
  // Counters are named by the limits only.
  return { binds } as unknown as Snapshot;
}

test("a counter of a bucket is listed once for each entry that shares it, with the entry's own limit", () => {
  const entry = (policy: string, target: string, amount: number, more: Partial<LocalLimit> = {}): LocalLimit => ({
    ...{ counter: "bucket default/team", policy, entry: 0, target, counts: "requests", amount, burst: 0 },
    ...{ unit: "Hours", mode: "Enforce", bucket: "team", ...more },
  });
  const snapshot = underLimits(
    entry("default/a", "HTTPRoute/default/a", 10, { name: "small" }),
    entry("default/b", "HTTPRoute/default/b", 100, { when: "false", replicas: 3 }),
    entry("default/b", "HTTPRoute/default/c", 100),
  );
  const steps = nameCounters(
    snapshot,
    [{ entry: "bucket default/team", key: undefined, used: 10, held: 4, resetSeconds: 5 }],
    ({ counter }) => counter,
    10,
  );
  const { counters, leftOut } = runToEnd(steps);
  expect(leftOut).toBe(0);
  expect(counters).toMatchObject([
    { policy: "default/a", name: "small", bucket: "team", used: 10, held: 4, limit: 10, remaining: 0 },
    { policy: "default/b", entry: 0, bucket: "team", used: 10, limit: 100, remaining: 90 },
  ]);
});

test("the counters that are nearest to exhaustion are listed, and the others are counted", () => {
  const limit: LocalLimit = {
    ...{ counter: "c", policy: "default/a", entry: 0, target: "HTTPRoute/default/a", counts: "requests" },
    ...{ amount: 10_000, burst: 0, unit: "Hours", mode: "Enforce" },
  };
  const used = Array.from({ length: 10_000 }, (_, at) => (at * 7) % 10_000);
  const open = used.map((units, at) => {
    return { entry: "c", key: `api_key=${at}`, used: units, held: 0, resetSeconds: 5 };
  });
  const { counters, leftOut } = runToEnd(nameCounters(underLimits(limit), open, ({ counter }) => counter, 3));
  expect(counters.map(({ remaining, key }) => [remaining, key?.isSecret])).toEqual([
    [1, true],
    [2, true],
    [3, true],
  ]);
  expect(leftOut).toBe(9_997);
});
