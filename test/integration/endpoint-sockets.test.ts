/** The connections to all endpoints together have a maximum, which clients share fairly. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { respondWith, startBackend, type TestBackend } from "../support/backend.ts";
import { freePort } from "../support/free-port.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  serviceManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { startGatewayTo } from "../support/llm-gateway.ts";
import { openFrom, type ProxiedClient } from "../support/proxied-client.ts";

const maxSockets = 3;

/** Five backends at `/0` to `/4`, whose requests wait for the test, and one at `/gone` that does not listen. */
async function start(upstream = {}) {
  const held: { readonly path: string; readonly response: ServerResponse }[] = [];
  const backends: TestBackend[] = [];
  for (let at = 0; at < 5; at++) {
    backends.push(await startBackend(({ url: path = "" }, response) => void held.push({ path, response })));
  }
  const ports = [...backends.map(({ port }) => port), await freePort()];
  const names = [...backends.keys(), "gone"];
  const rules = names.map((name) => {
    return `{ matches: [{ path: { value: /${name} } }], backendRefs: [${backendRef(`b-${name}`)}] }`;
  });
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      ...names.map((name, at) => backendManifest(`b-${name}`, ports[at] ?? 0)),
      routeManifest("r", rules),
      policyManifest("limit", "kind: HTTPRoute, name: r", ["{ requests: 100, unit: Hours, key: source.address }"]),
    ),
    {
      expectsProxyHeader: true,
      upstream: { maxConnections: 10, maxSockets, maxRequests: 100, maxWaiting: 100, maxWaitMs: 5_000, ...upstream },
    },
  );
  const send = (address: string, path: string) =>
    openFrom(gateway, address, `GET /${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
  const paths = (): readonly string[] => held.map(({ path }) => path);
  const respond = (path: string): void => {
    for (const { path: each, response } of held) if (each === path) response.end("done");
  };
  return { gateway, send, paths, respond };
}

type Started = Awaited<ReturnType<typeof start>>;

/** Takes all connections for requests of one client. */
async function takeAll({ send, paths }: Started) {
  const clients = [];
  for (let at = 0; at < maxSockets; at++) {
    clients.push(send("10.0.0.1", `${at}`));
    await expect.poll(() => paths().length).toBe(at + 1);
  }
  return clients;
}

test("a client with fewer requests gets one in place of the newest of the client with the most", async () => {
  const started = await start();
  const slow = await takeAll(started);
  const other = started.send("10.0.0.2", "4");
  await expect.poll(() => started.paths().at(-1)).toBe("/4");
  started.respond("/4");
  await expect.poll(() => other.text()).toContain("done");
  await expect.poll(() => slow[2]?.text()).toContain("HTTP/1.1 503");
  // The backend got it, so its unit is not refunded.
  expect(slow[2]?.text()).toContain("x-ratelimit-remaining: 97");
  expect(started.gateway.records.map(({ reason }) => reason)).toEqual(["BackendOverloaded", undefined]);
  started.respond("/0");
  started.respond("/1");
  await expect.poll(() => slow.filter(({ text }) => text().includes("done")).length).toBe(2);
});

test("a client with the most waits, and is served when a request to another endpoint has ended", async () => {
  const started = await start();
  await takeAll(started);
  const waiting = [3, 4].map((at) => started.send("10.0.0.1", `${at}`));
  await expect.poll(() => started.gateway.dataPlane.endpoints().filter(({ pending }) => pending > 0).length).toBe(5);
  expect(started.paths()).toHaveLength(maxSockets);
  started.respond("/0");
  await expect.poll(() => started.paths().at(-1)).toBe("/3");
  started.respond("/1");
  await expect.poll(() => started.paths().at(-1)).toBe("/4");
  started.respond("/3");
  started.respond("/4");
  await expect.poll(() => waiting.filter(({ text }) => text().includes("done")).length).toBe(2);
});

test("requests that wait for a connection to any endpoint get 503 in time, and hold none", async () => {
  const started = await start();
  await takeAll(started);
  const waiting = started.send("10.0.0.1", "4");
  await expect.poll(() => started.gateway.dataPlane.endpoints().filter(({ pending }) => pending > 0).length).toBe(4);
  started.gateway.clock.advance(5_000);
  await expect.poll(() => waiting.text()).toContain("HTTP/1.1 503");
  started.respond("/0");
  const next = started.send("10.0.0.1", "3");
  await expect.poll(() => started.paths().at(-1)).toBe("/3");
  started.respond("/3");
  await expect.poll(() => next.text()).toContain("done");
});

test("idle connections make room, and connections that end in any way are not counted", async () => {
  const started = await start();
  const { send, paths, respond, gateway } = started;
  for (let round = 0; round < 3; round++) {
    for (let at = 0; at < 5; at++) {
      const count = paths().length;
      const client = send("10.0.0.1", `${at}`);
      await expect.poll(() => paths().length).toBe(count + 1);
      if (round === 1) client.socket.destroy();
      else respond(`/${at}`);
      await expect.poll(() => gateway.records.length).toBe(round * 6 + at + 1);
    }
    const failed = send("10.0.0.1", "gone");
    await expect.poll(() => failed.text()).toContain("HTTP/1.1 503");
  }
  await takeAll({ ...started, paths: () => paths().slice(15) });
});

interface Held {
  readonly path: string;
  readonly stream: ServerHttp2Stream;
}

/** Endpoints over HTTP/2 at `/0` to `/2`, whose requests wait for the test, and a fast one over HTTP/1.1 at `/fast`. */
async function startHttp2() {
  const held: Held[] = [];
  const ports = await Promise.all([0, 1, 2].map(() => http2Endpoint(held)));
  const fast = await startBackend(respondWith(200, "fast"));
  const rule = (path: string, ref: string): string =>
    `{ matches: [{ path: { value: /${path} } }], backendRefs: [${ref}] }`;
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      ...ports.map((port, at) => serviceManifest(`s-${at}`, [port], "appProtocol: kubernetes.io/h2c")),
      backendManifest("fast", fast.port),
      routeManifest("r", [
        ...ports.map((_, at) => rule(String(at), `{ name: s-${at}, port: 80 }`)),
        rule("fast", backendRef("fast")),
      ]),
    ),
    {
      expectsProxyHeader: true,
      upstream: { maxConnections: 10, maxSockets, maxRequests: 100, maxWaiting: 100, maxWaitMs: 5_000 },
    },
  );
  /** Sends a request that an endpoint holds. */
  const hold = async (address: string, path: string) => {
    const count = held.length;
    const client = openFrom(gateway, address, `GET /${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await expect.poll(() => held.length).toBe(count + 1);
    return client;
  };
  return { gateway, held, hold };
}

async function http2Endpoint(held: Held[]): Promise<number> {
  const server = createServer().on("stream", (stream: ServerHttp2Stream, headers) => {
    stream.on("error", () => undefined);
    held.push({ path: headers[":path"] ?? "", stream });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

function sendFast(gateway: TestGateway, address: string) {
  return openFrom(gateway, address, "GET /fast HTTP/1.1\r\nHost: a\r\n\r\n");
}

test("requests over HTTP/2 that hold all connections make room for another client", async () => {
  const { gateway, hold } = await startHttp2();
  const slow: ProxiedClient[] = [];
  for (const at of [0, 1, 2]) slow.push(await hold("10.0.0.1", String(at)));
  const other = sendFast(gateway, "10.0.0.2");
  await expect.poll(() => other.text()).toContain("fast");
  await expect.poll(() => slow[2]?.text()).toContain("HTTP/1.1 503");
  expect(slow.map(({ text }) => text())).toEqual(["", "", expect.stringContaining("backend overloaded")]);
});

test("a connection that others use too makes room after those that the client uses alone", async () => {
  const { gateway, hold } = await startHttp2();
  const slow: ProxiedClient[] = [];
  for (const at of [0, 1, 2]) slow.push(await hold("10.0.0.1", String(at)));
  const sharing = await hold("10.0.0.3", "2");
  const other = sendFast(gateway, "10.0.0.2");
  await expect.poll(() => other.text()).toContain("fast");
  expect(sharing.text()).toBe("");
  expect(slow.map(({ text }) => text().includes("503"))).toEqual([false, true, false]);
});

test("two clients that share each connection over HTTP/2 make room for a third", async () => {
  const { gateway, hold } = await startHttp2();
  const slow: ProxiedClient[] = [];
  for (const at of [0, 1, 2]) for (const address of ["10.0.0.1", "10.0.0.3"]) slow.push(await hold(address, `${at}`));
  const other = sendFast(gateway, "10.0.0.2");
  await expect.poll(() => other.text()).toContain("fast");
  expect(slow.map(({ text }) => text().includes("503"))).toEqual([false, false, false, false, true, true]);
});

test("a displaced request of a model costs an estimate, since its provider has got it", async () => {
  const held: ServerResponse[] = [];
  const provider = await startBackend((_, response) => void held.push(response));
  const gateway = await startGatewayTo("openai", provider.port, ["{ tokens: 1000, unit: Hours }"], "", "", {
    expectsProxyHeader: true,
    upstream: { maxConnections: 10, maxSockets: 2, maxRequests: 100, maxWaiting: 100, maxWaitMs: 5_000 },
  });
  const send = (address: string) => {
    const body = JSON.stringify({ model: "m", messages: [{ role: "user", content: "x".repeat(150) }] });
    const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`;
    return { client: openFrom(gateway, address, head + body), tokens: Math.ceil(body.length / 4) };
  };
  send("10.0.0.1");
  await expect.poll(() => held.length).toBe(1);
  const displaced = send("10.0.0.1");
  await expect.poll(() => held.length).toBe(2);
  send("10.0.0.2");
  await expect.poll(() => displaced.client.text()).toContain("HTTP/1.1 503");
  expect(gateway.records).toMatchObject([
    { status: 503, reason: "BackendOverloaded", usage: { total: displaced.tokens, estimated: true } },
  ]);
  await expect.poll(() => held.length).toBe(3);
});
