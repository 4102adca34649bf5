/** The limits of a backend: connections per endpoint, and requests in progress and pending requests per backend. */
import type { ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import type { UpstreamSettings } from "../../proxy/src/upstream/upstream-settings.ts";
import { startBackend, type TestBackend } from "../support/backend.ts";
import {
  gatewayManifest,
  manifests,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";

/** A backend that responds when the test ends a response, and a gateway with these bounds in front of it. */
async function start(upstream: Partial<UpstreamSettings>, rule = "") {
  const held: ServerResponse[] = [];
  const sockets = new Set<unknown>();
  const backend = await startBackend((request, response) => {
    sockets.add(request.socket);
    held.push(response);
  });
  const bounds = { maxConnections: 100, maxRequests: 100, maxWaiting: 100, maxWaitMs: 1_000, ...upstream };
  const gateway = await startGateway(manifestsFor([backend], rule), { upstream: bounds });
  return { backend, gateway, held, sockets };
}

/** @param rule further fields of the route's rule, as flow YAML with a comma at the end */
function manifestsFor(backends: readonly TestBackend[], rule = ""): string {
  const ports = backends.map(({ port }) => port);
  const route = routeManifest("r", [`{ ${rule} backendRefs: [{ name: svc, port: 80 }] }`]);
  return manifests(gatewayManifest(), serviceManifest("svc", ports), route);
}

/** Sends a request and waits until the proxy has it in progress or has responded. */
async function send(gateway: TestGateway, init?: RequestInit): Promise<{ readonly response: Promise<Response> }> {
  const before = pending(gateway);
  const done = gateway.records.length;
  const response = fetch(gateway.url(), init);
  response.catch(() => undefined);
  await expect.poll(() => pending(gateway) > before || gateway.records.length > done).toBe(true);
  return { response };
}

function pending(gateway: TestGateway): number {
  return gateway.dataPlane.endpoints().reduce((sum, endpoint) => sum + endpoint.pending, 0);
}

const overloaded = { status: 503, reason: "BackendOverloaded" };

describe("connections to an endpoint", () => {
  test("are bounded by the setting; further requests wait and are served in order", async () => {
    const { backend, gateway, held, sockets } = await start({ maxConnections: 2 });
    const pendingRequests = [await send(gateway), await send(gateway), await send(gateway), await send(gateway)];
    await expect.poll(() => backend.requests.length).toBe(2);
    for (let i = 0; i < pendingRequests.length; i++) {
      await expect.poll(() => held.length).toBeGreaterThan(i);
      held[i]?.end(String(i));
      expect(await (await pendingRequests[i]?.response)?.text()).toBe(String(i));
    }
    expect(sockets.size).toBe(2);
  });

  test("are closed when the endpoint is removed, each after its last request", async () => {
    const { backend, gateway, held } = await start({ maxConnections: 1 });
    const other = await startBackend((_request, response) => response.end("other"));
    const first = await send(gateway);
    const waiting = await send(gateway);
    await expect.poll(() => held.length).toBe(1);
    const closed = new Promise((resolve) => backend.requests[0]?.socket.once("close", resolve));
    await gateway.apply(manifestsFor([other]));
    expect(await (await fetch(gateway.url())).text()).toBe("other");
    held[0]?.end("first");
    expect(await (await first.response).text()).toBe("first");
    await expect.poll(() => held.length).toBe(2);
    held[1]?.end("second");
    expect(await (await waiting.response).text()).toBe("second");
    await closed;
  });
});

describe("requests to a backend", () => {
  test("beyond the bound get a 503 with a reason, until one has ended", async () => {
    const { gateway, held } = await start({ maxRequests: 2 });
    const pendingRequests = [await send(gateway), await send(gateway)];
    const third = await (await send(gateway)).response;
    expect(third.status).toBe(503);
    expect(await third.text()).toBe("backend overloaded");
    expect(gateway.records[0]).toMatchObject({ ...overloaded, backend: "Service/default/svc:80", attempts: 0 });
    await expect.poll(() => held.length).toBe(2);
    held[0]?.end();
    await (await pendingRequests[0]?.response)?.text();
    const fourth = await send(gateway);
    await expect.poll(() => held.length).toBe(3);
    held[2]?.end();
    expect((await fourth.response).status).toBe(200);
  });

  test("that exceed the bound of the pending queue get a 503", async () => {
    const { gateway } = await start({ maxConnections: 1, maxWaiting: 1 });
    await send(gateway);
    await send(gateway);
    expect((await (await send(gateway)).response).status).toBe(503);
    expect(gateway.records[0]).toMatchObject(overloaded);
  });

  test("that are pending leave the queue when the client disconnects", async () => {
    const { gateway, held } = await start({ maxConnections: 1, maxWaiting: 1 });
    await send(gateway);
    const abort = new AbortController();
    await send(gateway, { signal: abort.signal });
    const left = gateway.nextRecord();
    abort.abort();
    expect(await left).toMatchObject({ reason: "ClientDisconnect", status: 0 });
    const third = await send(gateway);
    await expect.poll(() => held.length).toBe(1);
    held[0]?.end();
    await expect.poll(() => held.length).toBe(2);
    held[1]?.end();
    expect((await third.response).status).toBe(200);
  });

  describe("that are pending", () => {
    test("get a 503 with a reason at their deadline, each at its own", async () => {
      const { gateway, held } = await start({ maxConnections: 1 });
      const served = await send(gateway);
      const early = await send(gateway);
      gateway.clock.advance(400);
      const late = await send(gateway);
      gateway.clock.advance(600);
      expect((await early.response).status).toBe(503);
      expect(gateway.records).toMatchObject([{ ...overloaded, durationMs: 1_000 }]);
      await expect.poll(() => held.length).toBe(1);
      held[0]?.end();
      expect((await served.response).status).toBe(200);
      await expect.poll(() => held.length).toBe(2);
      held[1]?.end();
      expect((await late.response).status).toBe(200);
    });

    test("do not become pending again, whatever the retries of the rule", async () => {
      const { gateway } = await start({ maxConnections: 1 }, "retry: { attempts: 3, codes: [503] },");
      await send(gateway);
      const waiting = await send(gateway);
      gateway.clock.advance(1_000);
      expect((await waiting.response).status).toBe(503);
      expect(gateway.records[0]).toMatchObject({ ...overloaded, attempts: 1 });
    });

    test("do not count as failures of an endpoint", async () => {
      const { gateway } = await start({ maxConnections: 1 });
      await send(gateway);
      for (let i = 0; i < 6; i++) {
        const waiting = await send(gateway);
        gateway.clock.advance(1_000);
        expect((await waiting.response).status).toBe(503);
      }
      expect(gateway.dataPlane.endpoints()).toMatchObject([{ health: 1, consecutiveFailures: 0, timesEjected: 0 }]);
    });

    test.each([
      ["request", "RequestTimeout"],
      ["backendRequest", "UpstreamTimeout"],
    ])("are ended earlier by timeouts.%s", async (timeout, reason) => {
      const { gateway } = await start({ maxConnections: 1 }, `timeouts: { ${timeout}: 300ms },`);
      await send(gateway);
      gateway.clock.advance(100);
      const waiting = await send(gateway);
      gateway.clock.advance(300);
      expect((await waiting.response).status).toBe(504);
      expect(gateway.records.map((record) => record.reason)).toEqual([reason, reason]);
    });
  });
});
