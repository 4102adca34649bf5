/** Tunnels have separate connections: they do not use those of other requests, and each client gets a share. */
import { once } from "node:events";
import { createServer } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { openFrom, type ProxiedClient } from "../support/proxied-client.ts";

const maxTunnels = 3;

/**
 * A backend that switches protocols except for `/pending`, and responds to all other requests, behind two connections.
 */
async function start() {
  const sockets = new Set<Socket>();
  const server = createServer((_request, response) => response.end("plain"));
  server.on("connection", (socket) => sockets.add(socket));
  server.on("upgrade", ({ url }, socket) => {
    socket
      .on("error", () => undefined)
      .on("data", (chunk: Buffer) => socket.write(chunk))
      .on("end", () => socket.end());
    if (url !== "/pending") {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const route = routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]);
  const gateway = await startGateway(manifests(gatewayManifest(), backendManifest("b", port), route), {
    expectsProxyHeader: true,
    streamIdleTimeoutMs: 300_000,
    contendedStreamIdleTimeoutMs: 3_000,
    upstream: { maxConnections: 2, maxTunnels, maxRequests: 2, maxWaiting: 0, maxWaitMs: 1_000 },
  });
  return gateway;
}

const upgrade = (path: string): string =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n`;

async function tunnel(gateway: TestGateway, address: string): Promise<ProxiedClient> {
  const client = openFrom(gateway, address, upgrade("/"));
  await expect.poll(client.text).toMatch(/^HTTP\/1\.1 101 /);
  return client;
}

async function plain(gateway: TestGateway): Promise<string> {
  const client = openFrom(gateway, "10.0.0.9", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  await once(client.socket, "end");
  return client.text().slice(0, 12);
}

test("other requests are served while tunnels and requests for tunnels use their whole share", async () => {
  const gateway = await start();
  await tunnel(gateway, "10.0.0.1");
  await tunnel(gateway, "10.0.0.1");
  openFrom(gateway, "10.0.0.1", upgrade("/pending"));
  await expect.poll(() => gateway.dataPlane.endpoints()[0]?.pending).toBe(maxTunnels);
  for (let i = 0; i < 4; i++) expect(await plain(gateway)).toBe("HTTP/1.1 200");
  expect(await Promise.all([plain(gateway), plain(gateway)])).toEqual(["HTTP/1.1 200", "HTTP/1.1 200"]);
});

test("a client without a tunnel replaces the oldest tunnel of the client with the most", async () => {
  const gateway = await start();
  const [first, second, third] = [
    await tunnel(gateway, "10.0.0.1"),
    await tunnel(gateway, "10.0.0.1"),
    await tunnel(gateway, "10.0.0.1"),
  ];
  const ended = once(first.socket, "end");
  const other = await tunnel(gateway, "10.0.0.2");
  await ended;
  await expect.poll(() => gateway.records).toMatchObject([{ status: 101, reason: "BackendOverloaded" }]);
  for (const { socket, text } of [second, third, other]) {
    socket.write("hello");
    await expect.poll(text).toMatch(/hello$/);
  }
  // It has two of three.
  const denied = openFrom(gateway, "10.0.0.1", upgrade("/"));
  await expect.poll(denied.text).toMatch(/^HTTP\/1\.1 503 /);
});

test("a request for a tunnel without a response is replaced too, with 503", async () => {
  const gateway = await start();
  const pending = openFrom(gateway, "10.0.0.1", upgrade("/pending"));
  await expect.poll(() => gateway.dataPlane.endpoints()[0]?.pending).toBe(1);
  await tunnel(gateway, "10.0.0.1");
  await tunnel(gateway, "10.0.0.1");
  const other = await tunnel(gateway, "10.0.0.2");
  await expect.poll(pending.text).toMatch(/^HTTP\/1\.1 503 /);
  other.socket.write("hello");
  await expect.poll(other.text).toMatch(/hello$/);
});

test("connections of ended tunnels are not reused for other requests", async () => {
  const gateway = await start();
  for (let round = 0; round < 4; round++) {
    const tunnels = [await tunnel(gateway, "10.0.0.1"), await tunnel(gateway, "10.0.0.1")];
    for (const { socket } of tunnels) socket.destroy();
    await expect.poll(() => gateway.dataPlane.endpoints()[0]?.pending).toBe(0);
  }
  expect(await plain(gateway)).toBe("HTTP/1.1 200");
});

test("tunnels within one HTTP/2 connection count too", async () => {
  const gateway = await start();
  const session = connectHttp2(gateway.url(), {
    createConnection: () => openFrom(gateway, "10.0.0.1", "").socket.removeAllListeners("data"),
  });
  onTestFinished(() => session.destroy());
  session.on("error", () => undefined);
  await once(session, "remoteSettings");
  const statuses = await Promise.all(
    Array.from({ length: maxTunnels + 1 }, async () => {
      const stream = session.request({ ":method": "CONNECT", ":protocol": "websocket", ":path": "/" });
      const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
      return headers[":status"];
    }),
  );
  expect(statuses.sort()).toEqual([200, 200, 200, 503]);
  expect(await plain(gateway)).toBe("HTTP/1.1 200");
});
