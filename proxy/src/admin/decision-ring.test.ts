import { expect, test } from "vitest";
import type { LocalDenial } from "../policy/ratelimit/denial.ts";
import { newStreamRecord } from "../telemetry/stream-record.ts";
import { DecisionRing } from "./decision-ring.ts";

const denial = (key?: string): LocalDenial =>
  ({
    kind: "local",
    limit: { policy: "default/p", target: "TCPRoute/default/r", entry: 0, counts: "connections", amount: 1, key: "k" },
    ...(key !== undefined && { key }),
    ...{ used: 1, windowStartMs: 0, windowEndMs: 0, state: { limit: 1 }, notApplied: [] },
  }) as unknown as LocalDenial;

function connection(at: number, sourceAddress: string, key?: string) {
  const record = newStreamRecord({
    ...{ protocol: "TCP", startMs: 0, sourceAddress, serverName: undefined },
    ...{ listener: undefined, route: undefined, rule: undefined, gateway: undefined },
  });
  return { record, denial: denial(key), atMs: at, monotonicMs: at };
}

const request = { requestId: "r-1", method: "GET", authority: "a", path: "/", sourceAddress: "192.0.2.1" };

test("a flood of denied connections leaves the denials of requests, and is bounded", () => {
  const ring = new DecisionRing(1);
  ring.add({ record: request as never, denial: denial(), atMs: 0, monotonicMs: 0 });
  for (let at = 1; at <= 5_000; at++) ring.addConnection(connection(at, `198.51.100.${at % 250}`));
  expect(ring.find({ id: undefined }).remembered).toBe(1 + 1_024);
  expect(ring.find({ id: "r-1" }).decisions).toMatchObject([{ kind: "local", requestId: "r-1" }]);
  expect(ring.find({ id: undefined, source: "192.0.2.1" }).decisions).toMatchObject([{ requestId: "r-1" }]);
  const [first, second] = ring.find({ id: undefined }).decisions;
  expect([first?.at, second?.at]).toEqual(["1970-01-01T00:00:05.000Z", "1970-01-01T00:00:04.999Z"]);
});

test("long keys of connections are kept up to 4 MiB together", () => {
  const ring = new DecisionRing(1);
  for (let at = 0; at < 100; at++) ring.addConnection(connection(at, "192.0.2.7", "k".repeat(100_000)));
  expect(ring.find({ id: undefined }).remembered).toBe(41);
});
