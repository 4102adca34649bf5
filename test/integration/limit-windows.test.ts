/** Sliding and calendar windows of local limits, through the proxy, with the time of a fake clock. */
import { expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

const dayMs = 86_400_000;

/** Serves one route with one entry, from a time of the wall clock on. */
async function serve(entry: string, start = "2026-11-27T12:00:00Z"): Promise<TestGateway> {
  const backend = await startBackend(respondWith(200, "here"));
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
      policyManifest("p", "kind: HTTPRoute, name: r", [entry]),
    ),
  );
  gateway.clock.stepWall(Date.parse(start) - gateway.clock.nowMs());
  return gateway;
}

async function send(gateway: TestGateway): Promise<string> {
  const { status, headers } = await fetch(gateway.url());
  return `${status} ${headers.get("x-ratelimit-remaining")} ${headers.get("x-ratelimit-reset")}`;
}

test("a sliding window restores each request one window after it, in parts of a 60th", async () => {
  const gateway = await serve("{ requests: 2, unit: Minutes, window: Sliding }");
  expect(await send(gateway)).toBe("200 1 61");
  gateway.clock.advance(40_000);
  expect(await send(gateway)).toBe("200 0 21");
  gateway.clock.advance(19_999);
  // A fixed window would allow two more from here on.
  expect(await send(gateway)).toBe("429 0 2");
  gateway.clock.advance(1_001);
  expect(await send(gateway)).toBe("200 0 40");
  expect(await send(gateway)).toBe("429 0 40");
});

test("a calendar window ends with the day of its time zone, also on the day of 25 hours", async () => {
  const gateway = await serve(
    "{ requests: 1, unit: Days, window: Calendar, timeZone: Europe/Berlin }",
    "2026-10-25T10:00:00Z",
  );
  // Noon of the zone's winter time is at 11:00 UTC, and its midnight at 23:00 UTC.
  expect(await send(gateway)).toBe(`200 0 ${13 * 3_600}`);
  expect(await send(gateway)).toBe(`429 0 ${13 * 3_600}`);
  gateway.clock.advance(13 * 3_600_000);
  expect(await send(gateway)).toBe(`200 0 ${24 * 3_600}`);
});

test("a month is one window, whatever its length, and its requests are counted after an edit of other fields", async () => {
  const gateway = await serve("{ requests: 2, unit: Months, window: Calendar, mode: Shadow }", "2028-02-01T00:00:00Z");
  await send(gateway);
  gateway.clock.advance(28 * dayMs);
  await gateway.apply(
    manifests(
      gatewayManifest(),
      routeManifest("r", ["filters: [{ type: RequestRedirect, requestRedirect: { statusCode: 302, port: 1 } }]"]),
      policyManifest("p", "kind: HTTPRoute, name: r", ["{ requests: 2, unit: Months, window: Calendar }"]),
    ),
  );
  const redirected = async (): Promise<number> => (await fetch(gateway.url(), { redirect: "manual" })).status;
  expect([await redirected(), await redirected()]).toEqual([302, 429]);
  gateway.clock.advance(dayMs);
  expect(await redirected()).toBe(302);
});

test("the longest window of the calendar is enforced", async () => {
  const gateway = await serve("{ requests: 1, unit: Months, every: 1000, window: Calendar }");
  // 1,000 months from 1970 on end in May 2053.
  const seconds = (Date.parse("2053-05-01T00:00:00Z") - Date.parse("2026-11-27T12:00:00Z")) / 1_000;
  expect(await send(gateway)).toBe(`200 0 ${seconds}`);
  expect(await send(gateway)).toBe(`429 0 ${seconds}`);
});

test("a clock that is set back by an hour over midnight restores nothing", async () => {
  const gateway = await serve("{ requests: 1, unit: Days, window: Calendar }", "2026-11-27T23:59:00Z");
  expect(await send(gateway)).toBe("200 0 60");
  gateway.clock.advance(60_000);
  expect(await send(gateway)).toBe(`200 0 ${24 * 3_600}`);
  gateway.clock.stepWall(-3_600_000);
  expect(await send(gateway)).toBe(`429 0 ${25 * 3_600}`);
});
