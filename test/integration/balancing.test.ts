/** Endpoints that fail are ejected for a time and return; the state of each can be read. */
import { once } from "node:events";
import type { RequestListener } from "node:http";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend, type TestBackend } from "../support/backend.ts";
import {
  gatewayManifest,
  manifests,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { startHttp2Gateway } from "../support/http2-gateway.ts";
import { openFrom } from "../support/proxied-client.ts";
import { frame, frameType, startRawHttp2Backend } from "../support/raw-http2.ts";

const route = routeManifest("r", ["backendRefs: [{ name: svc, port: 80 }]"]);

function serviceOn(...backends: readonly TestBackend[]): string {
  const ports = backends.map(({ port }) => port);
  return manifests(gatewayManifest(), serviceManifest("svc", ports), route);
}

/** Draws the endpoints in turn, so that both get their share whatever their responses. */
function alternately(): () => number {
  let draws = 0;
  // One endpoint is drawn first, then its partner.
  return () => (draws++ % 4 < 2 ? 0 : 0.5);
}

async function send(gateway: TestGateway, times: number): Promise<readonly number[]> {
  const statuses: number[] = [];
  for (let i = 0; i < times; i++) {
    const response = await fetch(gateway.url());
    await response.arrayBuffer();
    statuses.push(response.status);
  }
  return statuses;
}

function stateOf(gateway: TestGateway, { port }: Pick<TestBackend, "port">) {
  return gateway.dataPlane.endpoints().find(({ address }) => address === `127.0.0.1:${port}`);
}

/** One endpoint that fails until `heal` is called, and a healthy one; the failing one is drawn first. */
async function startPair() {
  let status = 503;
  const serve: RequestListener = (request, response) => {
    respondWith(request.socket.localPort === failing.port ? status : 200)(request, response);
  };
  const [one, other] = [await startBackend(serve), await startBackend(serve)];
  // Endpoints are ordered by their addresses.
  const [failing, healthy] = String(one.port) < String(other.port) ? [one, other] : [other, one];
  const gateway = await startGateway(serviceOn(failing, healthy), { random: alternately() });
  return { failing, healthy, gateway, heal: () => (status = 200) };
}

/** Sends requests until the failing endpoint is ejected. */
async function untilEjected(gateway: TestGateway, failing: TestBackend): Promise<void> {
  for (let i = 0; i < 200 && stateOf(gateway, failing)?.ejectedForMs === 0; i++) {
    await send(gateway, 1);
    // After this time old measurements have no weight: the endpoint is drawn again.
    gateway.clock.advance(10_000);
  }
}

describe("responses that one client makes fail", () => {
  async function startServing() {
    const serve: RequestListener = (request, response) =>
      respondWith(request.url === "/fails" ? 500 : 200)(request, response);
    const backends = [await startBackend(serve), await startBackend(serve)] as const;
    const gateway = await startGateway(serviceOn(...backends), { random: alternately(), expectsProxyHeader: true });
    const request = async (address: string, path: string): Promise<void> => {
      const { length } = gateway.records;
      openFrom(gateway, address, `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
      await expect.poll(() => gateway.records.length).toBe(length + 1);
    };
    const isServing = (): boolean => backends.every(({ requests }) => requests.length > 0);
    while (!isServing()) await request("10.0.0.2", "/");
    const ejections = (): number =>
      gateway.dataPlane.endpoints().reduce((sum, { timesEjected }) => sum + timesEjected, 0);
    return { gateway, request, ejections };
  }

  test("do not eject an endpoint that serves others", async () => {
    const { request, ejections } = await startServing();
    for (let count = 0; count < 40; count++) await request("10.0.0.1", "/fails");
    expect(ejections()).toBe(0);
    for (let count = 0; count < 10; count++) await request(`10.0.0.${count + 3}`, "/fails");
    expect(ejections()).toBe(1);
  });

  test("eject it if it serves no others for ten seconds", async () => {
    const { gateway, request, ejections } = await startServing();
    gateway.clock.advance(10_000);
    for (let count = 0; count < 20; count++) await request("10.0.0.1", "/fails");
    expect(ejections()).toBe(1);
  });
});

describe("an endpoint that fails five times in a row", () => {
  test("is ejected, then used again, and ejected for twice as long if it fails again", async () => {
    const { failing, healthy, gateway } = await startPair();
    await untilEjected(gateway, failing);
    expect(stateOf(gateway, failing)).toMatchObject({ consecutiveFailures: 5, timesEjected: 1 });
    expect(failing.requests).toHaveLength(5);

    const served = healthy.requests.length;
    expect(await send(gateway, 4)).toEqual([200, 200, 200, 200]);
    expect(healthy.requests).toHaveLength(served + 4);

    gateway.clock.advance(15_000);
    expect(stateOf(gateway, failing)).toMatchObject({ ejectedForMs: 0 });
    await untilEjected(gateway, failing);
    expect(stateOf(gateway, failing)).toMatchObject({ timesEjected: 2, consecutiveFailures: 6 });
    expect(stateOf(gateway, failing)?.ejectedForMs).toBeGreaterThan(9_000);
  });

  test("that recovers serves again, and its past failures have no effect", async () => {
    const { failing, gateway, heal } = await startPair();
    await untilEjected(gateway, failing);
    heal();
    gateway.clock.advance(15_000);
    for (let i = 0; i < 120; i++) {
      await send(gateway, 1);
      gateway.clock.advance(10_000);
    }
    expect(stateOf(gateway, failing)).toMatchObject({ timesEjected: 0, consecutiveFailures: 0 });
    expect(stateOf(gateway, failing)?.health).toBeCloseTo(1, 1);
  });

  test("is not ejected if it is the only one", async () => {
    const only = await startBackend(respondWith(500));
    const gateway = await startGateway(serviceOn(only));
    expect(await send(gateway, 12)).toEqual(Array<number>(12).fill(500));
    expect(stateOf(gateway, only)).toMatchObject({ ejectedForMs: 0, consecutiveFailures: 12, requests: 12 });
  });
});

test("at most half of the endpoints are ejected, even if all fail", async () => {
  const all = await Promise.all([1, 2, 3, 4].map(() => startBackend(respondWith(500))));
  let draw = 0;
  const gateway = await startGateway(serviceOn(...all), { random: () => (draw = (draw + 0.37) % 1) });
  for (let i = 0; i < 60; i++) await send(gateway, 1);
  const out = gateway.dataPlane.endpoints().filter(({ ejectedForMs }) => ejectedForMs > 0);
  expect(out).toHaveLength(2);
});

test("the state of each endpoint can be read", async () => {
  const { failing, healthy, gateway } = await startPair();
  await send(gateway, 1);
  expect(stateOf(gateway, failing)).toEqual({
    backend: { key: "Service/default/svc:80", kind: "Service", namespace: "default", name: "svc" },
    endpoint: "svc-0",
    address: `127.0.0.1:${failing.port}`,
    health: 0.7,
    requests: 1,
    latencyMs: 0,
    pending: 0,
    consecutiveFailures: 1,
    timesEjected: 0,
    ejectedForMs: 0,
    failsChecks: false,
  });
  expect(stateOf(gateway, healthy)).toMatchObject({ endpoint: "svc-1", health: 1, requests: 0 });
});

test("a request with a retry counts as one request of the endpoint, and each attempt as a failure", async () => {
  const dead = await startBackend((request) => request.socket.destroy());
  const gateway = await startGateway(serviceOn(dead));
  const statuses = await send(gateway, 7);
  expect(statuses.every((status) => status >= 500)).toBe(true);
  expect(gateway.records.map(({ attempts }) => attempts)).toEqual(Array<number>(7).fill(2));
  expect(stateOf(gateway, dead)).toMatchObject({ requests: 7, consecutiveFailures: 14 });
});

test("an edit of other objects keeps the state of endpoints", async () => {
  const { failing, healthy, gateway } = await startPair();
  await send(gateway, 1);
  await gateway.apply(manifests(serviceOn(failing, healthy), routeManifest("other", ["backendRefs: []"])));
  expect(stateOf(gateway, failing)).toMatchObject({ requests: 1, consecutiveFailures: 1 });
});

test("uploads that clients reset do not count as failures of the endpoint", async () => {
  const backend = await startBackend((request) => request.resume());
  const gateway = await startGateway(serviceOn(backend));
  for (let i = 0; i < 6; i++) {
    const ended = gateway.nextRecord();
    const abort = new AbortController();
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode("part"));
      },
    });
    const response = fetch(gateway.url(), { method: "POST", body, duplex: "half", signal: abort.signal });
    await expect.poll(() => backend.requests.length).toBe(i + 1);
    abort.abort();
    await expect(response).rejects.toThrow();
    await ended;
  }
  expect(stateOf(gateway, backend)).toMatchObject({ requests: 6, consecutiveFailures: 0, health: 1, pending: 0 });
});

test("requests that HTTP/2 endpoints reject by a reset, such as those with many fields, eject none", async () => {
  const ports: number[] = [];
  for (let at = 0; at < 2; at++) {
    // Servers of Node reset requests with more than 128 fields (ENHANCE_YOUR_CALM).
    const server = createServer((_, response) => void response.end());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    ports.push((server.address() as AddressInfo).port);
  }
  const gateway = await startHttp2Gateway(ports);
  const headers = Object.fromEntries(Array.from({ length: 150 }, (_, at) => [`x-${at}`, "a"]));
  for (let count = 0; count < 20; count++) {
    expect((await fetch(gateway.url(), { method: "POST", headers })).status).toBe(502);
  }
  const states = gateway.dataPlane.endpoints();
  expect(states.map(({ consecutiveFailures, ejectedForMs }) => [consecutiveFailures, ejectedForMs])).toEqual([
    [0, 0],
    [0, 0],
  ]);
});

test("an HTTP/2 endpoint that rejects the requests of several clients, and serves none between, is ejected", async () => {
  const rejecting = await startRawHttp2Backend((frames, socket) => {
    for (const { type, flags, stream } of frames) {
      if (type === frameType.settings && (flags & 1) === 0) socket.write(frame(frameType.settings, 1, 0));
      // PROTOCOL_ERROR
      if (type === frameType.headers) socket.write(frame(frameType.rstStream, 0, stream, Buffer.from([0, 0, 0, 1])));
    }
  });
  const serving = createServer((_, response) => void response.end());
  serving.listen(0, "127.0.0.1");
  await once(serving, "listening");
  onTestFinished(() => void serving.close());
  const ports = [rejecting, (serving.address() as AddressInfo).port];
  const gateway = await startHttp2Gateway(ports, {
    expectsProxyHeader: true,
    random: alternately(),
  });
  const send = async (address: string): Promise<void> => {
    const client = openFrom(gateway, address, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    await expect.poll(() => client.text()).toContain("HTTP/1.1");
    // Failures of which an endpoint gets no further requests are forgotten.
    gateway.clock.advance(10_000);
  };
  const ejectedMs = () => stateOf(gateway, { port: rejecting })?.ejectedForMs;
  for (let count = 0; count < 20; count++) await send("10.0.0.1");
  expect(ejectedMs()).toBe(0);
  for (let count = 0; count < 60 && ejectedMs() === 0; count++) await send(`10.0.0.${1 + (count % 3)}`);
  expect(ejectedMs()).toBeGreaterThan(0);
});
