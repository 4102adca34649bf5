/** Fairness between clients while an endpoint gets more requests than it has connections. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { connect as connectHttp2, createServer, type ServerHttp2Stream, type Settings } from "node:http2";
import { type AddressInfo, connect } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { startHttp2Gateway } from "../support/http2-gateway.ts";
import type { UpstreamSettings } from "../../proxy/src/upstream/upstream-settings.ts";
import { openFrom, type ProxiedClient } from "../support/proxied-client.ts";
import { frame, frameType, startRawHttp2Backend } from "../support/raw-http2.ts";

const contendedMs = 3_000;
/** The time until a request that delays others is ended. */
const endedMs = contendedMs * 1.25;
const maxConnections = 4;

/** A backend behind few connections that responds to `/hold…` when the test says so, and to all others at their end. */
async function start(upstream = {}) {
  const held: ServerResponse[] = [];
  const { port, requests } = await startBackend((request, response) => {
    if (request.url?.startsWith("/hold") === true) held.push(response);
    else if (request.url === "/begins") response.writeHead(200).write("begun");
    else request.resume().on("end", () => response.end(request.url));
  });
  const route = routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", port), route), {
    expectsProxyHeader: true,
    streamIdleTimeoutMs: 300_000,
    contendedStreamIdleTimeoutMs: contendedMs,
    upstream: { maxConnections, maxRequests: 100, maxWaiting: 100, maxWaitMs: 60_000, ...upstream },
  });
  return { gateway, held, paths: () => requests.map(({ url }) => url) };
}

/** Like `openFrom`; waits until the request has a connection to the backend or is pending. */
async function send(gateway: TestGateway, address: string, text: string): Promise<ProxiedClient> {
  const before = begun(gateway);
  const client = openFrom(gateway, address, text);
  await expect.poll(() => begun(gateway)).toBe(before + 1);
  return client;
}

/** The number of requests that were ever sent to the backend or became pending. */
function begun(gateway: TestGateway): number {
  return gateway.dataPlane.endpoints().reduce((sum, { requests }) => sum + requests, 0);
}

const upload = "POST /slow HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;

/** Advances the clock in steps; before each, `act` may send, and the gateway reads it. */
async function advance(gateway: TestGateway, ms: number, act: (step: number) => void = () => undefined): Promise<void> {
  const steps = 16;
  for (let i = 0; i < steps; i++) {
    act(i);
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    gateway.clock.advance(ms / steps);
  }
}

describe("stalled uploads that use every connection", () => {
  test("are ended soon once other requests wait, and those are served", async () => {
    const { gateway } = await start();
    const slow: ProxiedClient[] = [];
    for (let i = 0; i < maxConnections; i++) slow.push(await send(gateway, "10.0.0.1", upload));
    const other = await send(gateway, "10.0.0.2", get("/other"));
    await advance(gateway, endedMs);
    await expect.poll(() => other.text()).toContain("/other");
    await expect.poll(() => slow.map(({ text }) => text().slice(0, 12))).toEqual(slow.map(() => "HTTP/1.1 408"));
    expect(gateway.records.filter(({ reason }) => reason === "StreamIdleTimeout")).toHaveLength(maxConnections);
  });

  test("are ended too if their responses have begun", async () => {
    const { gateway } = await start();
    const slow: ProxiedClient[] = [];
    const begun = upload.replace("/slow", "/begins");
    for (let i = 0; i < maxConnections; i++) slow.push(await send(gateway, "10.0.0.1", begun));
    await expect.poll(() => slow.every(({ text }) => text().includes("begun"))).toBe(true);
    await advance(gateway, 10 * endedMs);
    expect(gateway.records).toEqual([]);
    const other = await send(gateway, "10.0.0.2", get("/other"));
    await advance(gateway, endedMs);
    await expect.poll(() => other.text()).toContain("/other");
    expect(gateway.records.filter(({ reason }) => reason === "StreamIdleTimeout")).toHaveLength(maxConnections);
  });

  test("are not ended while no request waits", async () => {
    const { gateway } = await start();
    for (let i = 0; i < maxConnections; i++) await send(gateway, "10.0.0.1", upload);
    await advance(gateway, 10 * endedMs);
    expect(gateway.records).toEqual([]);
  });
});

test("responses that the client does not read are ended too, over HTTP/2 with a window of 0", async () => {
  const { gateway, held } = await start();
  const session = connectHttp2(gateway.url(), {
    settings: { initialWindowSize: 0 },
    createConnection: (url) => {
      const socket = connect(Number(url.port), url.hostname);
      socket.write("PROXY TCP4 10.0.0.1 10.9.9.9 1 2\r\n");
      return socket;
    },
  });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  for (let i = 0; i < maxConnections; i++) {
    session.request({ ":path": "/hold" }).on("error", () => undefined);
  }
  await expect.poll(() => held.length).toBe(maxConnections);
  // More than the buffers on the way take, and without end.
  for (const response of held) response.write(Buffer.alloc(2_000_000));
  await advance(gateway, 1_000);
  const other = await send(gateway, "10.0.0.2", get("/other"));
  await advance(gateway, endedMs);
  await expect.poll(() => other.text()).toContain("/other");
  expect(gateway.records.filter(({ reason }) => reason === "StreamIdleTimeout")).toHaveLength(maxConnections);
});

test("of uploads with equal progress, the many of one address are ended, and the one of another continues", async () => {
  const { gateway, paths } = await start();
  const many: ProxiedClient[] = [];
  for (let i = 0; i < maxConnections - 1; i++) many.push(await send(gateway, "10.0.0.1", upload));
  const one = await send(gateway, "10.0.0.2", upload);
  const other = await send(gateway, "10.0.0.3", get("/other"));
  // 1,024 bytes a second each, which is enough for one, and not for three.
  const chunk = `f0\r\n${"x".repeat(0xf0)}\r\n`;
  await advance(gateway, endedMs, () => {
    for (const { socket } of [...many, one]) socket.write(chunk);
  });
  await expect.poll(() => other.text()).toContain("/other");
  expect(gateway.records.filter(({ reason }) => reason === "StreamIdleTimeout")).toMatchObject(
    many.map(() => ({ sourceAddress: "10.0.0.1" })),
  );
  one.socket.write("0\r\n\r\n");
  await expect.poll(() => one.text()).toMatch(/^HTTP\/1\.1 200 [^]*\/slow$/);
  expect(paths()).toContain("/other");
});

describe("pending requests", () => {
  test("are served in turn by client address", async () => {
    const { gateway, held, paths } = await start({ maxConnections: 1 });
    await send(gateway, "10.0.0.1", get("/hold/0"));
    for (let i = 1; i <= 3; i++) await send(gateway, "10.0.0.1", get(`/hold/a${i}`));
    await send(gateway, "10.0.0.2", get("/hold/b1"));
    await send(gateway, "10.0.0.2", get("/hold/b2"));
    await send(gateway, "10.0.0.3", get("/hold/c1"));
    for (let i = 0; i < 7; i++) {
      await expect.poll(() => held.length).toBe(i + 1);
      held[i]?.end();
    }
    expect(paths()).toEqual(["0", "a1", "b1", "c1", "a2", "b2", "a3"].map((name) => `/hold/${name}`));
  });

  test("of one client that fills the queue are denied to make room for another client", async () => {
    const { gateway, held } = await start({ maxConnections: 1, maxWaiting: 3 });
    await send(gateway, "10.0.0.1", get("/hold/0"));
    const waiting: ProxiedClient[] = [];
    for (let i = 1; i <= 3; i++) waiting.push(await send(gateway, "10.0.0.1", get(`/hold/${i}`)));
    const other = await send(gateway, "10.0.0.2", get("/other"));
    await expect.poll(() => waiting[2]?.text()).toMatch(/^HTTP\/1\.1 503 /);
    expect(gateway.records).toMatchObject([{ path: "/hold/3", reason: "BackendOverloaded" }]);
    // The client with the most pending requests gets the 503.
    const more = openFrom(gateway, "10.0.0.1", get("/more"));
    await expect.poll(() => more.text()).toMatch(/^HTTP\/1\.1 503 /);
    await expect.poll(() => held.length).toBe(1);
    held[0]?.end();
    await expect.poll(() => held.length).toBe(2);
    held[1]?.end();
    await expect.poll(() => other.text()).toContain("/other");
  });
});

test("a request waits for an HTTP/2 endpoint that accepts no stream as long as for a connection", async () => {
  let maxStreams = 0;
  const port = await startRawHttp2Backend((frames, socket) => {
    for (const { type, flags, stream } of frames) {
      if (type === frameType.settings && (flags & 1) === 0) {
        // SETTINGS_MAX_CONCURRENT_STREAMS
        socket.write(frame(frameType.settings, 0, 0, Buffer.from([0, 3, 0, 0, 0, maxStreams])));
        socket.write(frame(frameType.settings, 1, 0));
      }
      // :status 200
      if (type === frameType.headers) socket.write(frame(frameType.headers, 5, stream, Buffer.from([0x88])));
    }
  });
  const gateway = await startHttp2Gateway([port], {
    upstream: { maxConnections: 4, maxRequests: 100, maxWaiting: 100, maxWaitMs: 1_000 },
  });
  // The first may be sent before the endpoint has sent its stream limit.
  const first = fetch(gateway.url());
  await expect.poll(() => begun(gateway)).toBe(1);
  await first;
  const second = fetch(gateway.url());
  await expect.poll(() => begun(gateway)).toBe(2);
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  // Connecting may take 5 s.
  gateway.clock.advance(6_000);
  expect((await second).status).toBe(503);
  expect(gateway.records.at(-1)).toMatchObject({ status: 503, reason: "BackendOverloaded" });
  // A new connection may have another limit.
  maxStreams = 10;
  expect((await fetch(gateway.url())).status).toBe(200);
  expect(gateway.dataPlane.endpoints()).toMatchObject([{ pending: 0 }]);
});

describe("requests that a backend takes long for", () => {
  /** Requests of one address on all connections, in the order in which the backend got them. */
  async function holdAll(gateway: TestGateway, held: readonly ServerResponse[]): Promise<readonly ProxiedClient[]> {
    const slow: ProxiedClient[] = [];
    for (let at = 1; at <= maxConnections; at++) {
      slow.push(await send(gateway, "10.0.0.1", get(`/hold-${at}`)));
      await expect.poll(() => held.length).toBe(at);
    }
    return slow;
  }

  test("make room for a client that has waited for a fifth of the time, in place of the newest one", async () => {
    const { gateway, held } = await start({ maxWaitMs: 5_000 });
    const slow = await holdAll(gateway, held);
    await send(gateway, "10.0.0.1", get("/more"));
    const other = await send(gateway, "10.0.0.2", get("/other"));
    await advance(gateway, 900);
    expect(other.text()).toBe("");
    await advance(gateway, 200);
    await expect.poll(() => other.text()).toContain("/other");
    await expect.poll(() => slow.at(-1)?.text()).toContain("HTTP/1.1 503");
    expect(slow.slice(0, -1).map(({ text }) => text())).toEqual(["", "", ""]);
    expect(gateway.records.map(({ reason }) => reason).toSorted()).toContain("BackendOverloaded");
  });

  test("make no room for a client that has as many", async () => {
    const { gateway, held } = await start({ maxWaitMs: 5_000 });
    const slow = await holdAll(gateway, held);
    const more = await send(gateway, "10.0.0.1", get("/more"));
    await advance(gateway, 4_900);
    expect([...slow, more].map(({ text }) => text())).toEqual(Array.from({ length: maxConnections + 1 }, () => ""));
    await advance(gateway, 200);
    await expect.poll(() => more.text()).toContain("HTTP/1.1 503");
  });

  test("are not ended where the connections become free in time", async () => {
    const { gateway, held } = await start({ maxWaitMs: 5_000 });
    const slow = await holdAll(gateway, held);
    const other = await send(gateway, "10.0.0.2", get("/other"));
    await advance(gateway, 900);
    held[0]?.end("done");
    await expect.poll(() => other.text()).toContain("/other");
    await advance(gateway, 4_000);
    for (const response of held) response.end("done");
    await expect.poll(() => slow.every(({ text }) => text().includes("done"))).toBe(true);
  });

  test("make room for another client at once where the backend has its maximum of requests", async () => {
    const { gateway, held } = await start({ maxConnections: 10, maxRequests: maxConnections });
    const slow = await holdAll(gateway, held);
    const more = openFrom(gateway, "10.0.0.1", get("/more"));
    await expect.poll(() => more.text()).toContain("HTTP/1.1 503");
    const other = openFrom(gateway, "10.0.0.2", get("/other"));
    await expect.poll(() => other.text()).toContain("/other");
    expect(slow.map(({ text }) => text().slice(0, 12))).toEqual(["", "", "", "HTTP/1.1 503"]);
  });

  test("make room at once also where a client begins new ones in short intervals", async () => {
    const { gateway, held } = await start({ maxConnections: 10, maxRequests: maxConnections });
    await holdAll(gateway, held);
    const other = openFrom(gateway, "10.0.0.2", get("/other"));
    await expect.poll(() => other.text()).toContain("/other");
    // The address ends all of its requests, and sends as many others.
    for (const response of held.splice(0)) response.end();
    await expect.poll(() => gateway.dataPlane.endpoints()).toMatchObject([{ pending: 0 }]);
    await advance(gateway, 2);
    const slow = await holdAll(gateway, held);
    const another = openFrom(gateway, "10.0.0.3", get("/another"));
    await expect.poll(() => another.text()).toMatch(/^HTTP\/1\.1 200 [^]*\/another$/);
    expect(slow.map(({ text }) => text().slice(0, 12))).toEqual(["", "", "", "HTTP/1.1 503"]);
  });

  test("that wait for a connection make room where others have all connections", async () => {
    const { gateway, held } = await start({ maxRequests: 2 * maxConnections });
    for (let at = 0; at < maxConnections; at++) await send(gateway, `10.0.1.${at}`, get("/hold"));
    await expect.poll(() => held.length).toBe(maxConnections);
    const waiting: ProxiedClient[] = [];
    for (let count = 0; count < maxConnections; count++) waiting.push(await send(gateway, "10.0.0.1", get("/wait")));
    const other = await send(gateway, "10.0.0.2", get("/other"));
    await expect.poll(() => waiting.map(({ text }) => text().slice(0, 12))).toEqual(["", "", "", "HTTP/1.1 503"]);
    held.forEach((response) => response.end());
    await expect.poll(() => other.text()).toContain("/other");
  });

  /** An HTTP/2 endpoint that responds to `/other` only, behind connections with `settings`. */
  async function startHttp2(settings: Settings, upstream: Partial<UpstreamSettings>) {
    const streams: ServerHttp2Stream[] = [];
    const sessions = new Set<unknown>();
    const server = createServer({ settings }).on("stream", (stream: ServerHttp2Stream, headers) => {
      sessions.add(stream.session);
      stream.on("error", () => undefined);
      if (headers[":path"] === "/other") stream.respond({ ":status": 200 }, { endStream: true });
      else streams.push(stream);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const port = (server.address() as AddressInfo).port;
    const gateway = await startHttp2Gateway([port], {
      expectsProxyHeader: true,
      upstream: { maxConnections, maxRequests: maxConnections, maxWaiting: 100, maxWaitMs: 5_000, ...upstream },
    });
    /** Sends a request that is not responded to. */
    const hold = async (address: string): Promise<ProxiedClient> => {
      const before = streams.length;
      const client = openFrom(gateway, address, get("/hold"));
      await expect.poll(() => streams.length).toBe(before + 1);
      return client;
    };
    return { gateway, streams, sessions, hold };
  }

  test("over HTTP/2 make room without a new connection", async () => {
    const { gateway, sessions, hold } = await startHttp2({}, {});
    const slow: ProxiedClient[] = [];
    for (let i = 0; i < maxConnections; i++) slow.push(await hold("10.0.0.1"));
    const other = openFrom(gateway, "10.0.0.2", get("/other"));
    await expect.poll(() => other.text()).toContain("HTTP/1.1 200");
    await expect.poll(() => slow.filter(({ text }) => text().includes("503")).length).toBe(1);
    expect(sessions.size).toBe(1);
  });

  test("over HTTP/2 are not ended on connections that take no more requests", async () => {
    const { gateway, streams, sessions, hold } = await startHttp2(
      { maxConcurrentStreams: 4 },
      { maxConnections: 1, maxRequests: 100 },
    );
    const slow = [await hold("10.0.0.1"), await hold("10.0.0.1"), await hold("10.0.0.1")];
    // Another client cancels so many requests that the connection takes no more.
    let last = await hold("10.0.0.9");
    while (sessions.size === 1) {
      last.socket.destroy();
      await expect.poll(() => streams.at(-1)?.closed).toBe(true);
      last = await hold("10.0.0.9");
    }
    await hold("10.0.0.3");
    await hold("10.0.0.4");
    const newest = await hold("10.0.0.3");
    const other = await send(gateway, "10.0.0.2", get("/other"));
    await advance(gateway, 1_100);
    await expect.poll(() => other.text()).toContain("HTTP/1.1 200");
    await expect.poll(() => newest.text()).toContain("HTTP/1.1 503");
    expect(slow.map(({ text }) => text())).toEqual(["", "", ""]);
  });
});
