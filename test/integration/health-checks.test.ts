/** Active health checks: off by default; if they are on, an endpoint that fails them gets no requests. */
import type { RequestListener } from "node:http";
import { expect, test } from "vitest";
import { respondWith, startBackend, type TestBackend } from "../support/backend.ts";
import {
  gatewayManifest,
  manifests,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

/** The HTTP client's own timeouts run in real time, so the timeout of a check is longer than a slow machine needs. */
const healthChecks = { intervalMs: 60_000, timeoutMs: 30_000, path: "/healthz" };
const upstream = { maxConnections: 10, maxRequests: 100, maxWaiting: 10, maxWaitMs: 1_000, healthChecks };

/** Serves clients, and responds to health checks with the status of `health`. */
function serving(text: string, health: () => number): RequestListener {
  return (request, response) => {
    const isCheck = request.url === "/healthz";
    respondWith(isCheck ? health() : 200, text)(request, response);
  };
}

function start(...backends: readonly TestBackend[]): Promise<TestGateway> {
  const ports = backends.map(({ port }) => port);
  const route = routeManifest("r", ["backendRefs: [{ name: svc, port: 80 }]"]);
  let draws = 0;
  // The first checks are spread at random, here to the end of the interval; later draws are of endpoints.
  const random = (): number => (draws++ < backends.length ? 0.999_999 : (draws * 0.37) % 1);
  return startGateway(manifests(gatewayManifest(), serviceManifest("svc", ports), route), { upstream, random });
}

function checksOf(backend: TestBackend): number {
  return backend.requests.filter(({ url }) => url === "/healthz").length;
}

/** Waits until every endpoint is checked once more. */
async function checkAll(gateway: TestGateway, ...backends: readonly TestBackend[]): Promise<void> {
  const before = backends.map(checksOf);
  gateway.clock.advance(healthChecks.intervalMs);
  await expect.poll(() => backends.every((backend, i) => checksOf(backend) > (before[i] ?? 0))).toBe(true);
  // A check in progress has a timer too, but a shorter one.
  const nextChecks = (): number => gateway.clock.pendingDelaysMs.filter((ms) => ms > healthChecks.timeoutMs).length;
  await expect.poll(nextChecks).toBe(backends.length);
}

async function reached(gateway: TestGateway): Promise<readonly string[]> {
  const texts = new Set<string>();
  for (let i = 0; i < 20; i++) texts.add(await (await fetch(gateway.url())).text());
  return [...texts].sort();
}

test("an endpoint that fails three checks gets no requests, until it passes one", async () => {
  let status = 503;
  const ill = await startBackend(serving("ill", () => status));
  const well = await startBackend(serving("well", () => 404));
  const gateway = await start(ill, well);
  await checkAll(gateway, ill, well);
  await checkAll(gateway, ill, well);
  expect(await reached(gateway)).toEqual(["ill", "well"]);
  await checkAll(gateway, ill, well);
  expect(await reached(gateway)).toEqual(["well"]);
  const failing = gateway.dataPlane.endpoints().filter(({ failsChecks }) => failsChecks);
  expect(failing).toMatchObject([{ address: `127.0.0.1:${ill.port}` }]);
  status = 200;
  await checkAll(gateway, ill, well);
  expect(await reached(gateway)).toEqual(["ill", "well"]);
});

test("checks have a user agent, and do not count as requests of the endpoint", async () => {
  const backend = await startBackend(serving("", () => 200));
  const gateway = await start(backend);
  await checkAll(gateway, backend);
  expect(backend.requests[0]).toMatchObject({
    method: "GET",
    headers: { host: `127.0.0.1:${backend.port}`, "user-agent": "gateway-proxy-health-check" },
  });
  expect(gateway.dataPlane.endpoints()).toMatchObject([{ requests: 0 }]);
});

test("if every endpoint fails its checks, all of them serve", async () => {
  const backend = await startBackend(serving("served", () => 500));
  const gateway = await start(backend);
  for (let i = 0; i < 3; i++) await checkAll(gateway, backend);
  expect(await reached(gateway)).toEqual(["served"]);
});

test("a removed endpoint gets no more checks", async () => {
  const backend = await startBackend(serving("", () => 200));
  const gateway = await start(backend);
  await checkAll(gateway, backend);
  const before = checksOf(backend);
  await gateway.apply(gatewayManifest());
  expect(gateway.clock.pendingTimers).toBe(0);
  gateway.clock.advance(60_000);
  expect(checksOf(backend)).toBe(before);
});
