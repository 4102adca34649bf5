/**
 * A worker that dies while it serves connections and sessions: the other one goes on, and the ports stay served. Real
 * threads, on a fake clock.
 */
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, onTestFinished, test, vi } from "vitest";
import { parseManifests } from "../../proxy/src/api/parse-manifests.ts";
import { bindName } from "../../proxy/src/data-plane/data-plane.ts";
import { udpWorkerOf } from "../../proxy/src/streams/udp-worker.ts";
import { translate } from "../../proxy/src/translate/translate.ts";
import { freePort } from "../support/free-port.ts";
import { backendManifest, gatewayManifest, manifests, onLoopback, routeManifest } from "../support/gateway.ts";
import { packed, startWorkerPool } from "../support/worker-pool.ts";

// Threads start slowly on a busy machine.
vi.setConfig({ testTimeout: 90_000 });

/** A TCP and a UDP server that send back what they get; the latter as `PORT TEXT`, with the port of the sender. */
async function startEcho(): Promise<{ readonly tcp: number; readonly udp: number }> {
  const server = createServer((socket) => void socket.on("error", () => undefined).pipe(socket)).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const socket = await openUdp();
  socket.on("message", (text, { port, address }) => socket.send(`${port} ${text.toString()}`, port, address));
  return { tcp: (server.address() as AddressInfo).port, udp: socket.address().port };
}

async function openUdp(): Promise<UdpSocket> {
  const socket = createSocket("udp4").bind(0, "127.0.0.1");
  await once(socket, "listening");
  onTestFinished(() => void socket.close());
  return socket;
}

async function openTcp(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1").on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  return socket;
}

/** Whether a connection sends back what it gets; false if it is closed. */
async function echoes(socket: Socket): Promise<boolean> {
  if (socket.closed) return false;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  socket.once("data", () => resolve(true)).once("close", () => resolve(false));
  socket.write("hello");
  return await promise;
}

/** The port of the session of a client, which sends again until it has a reply to this text. */
async function sessionOf(client: UdpSocket, port: number, text: string): Promise<string> {
  let session: string | undefined;
  const onMessage = (bytes: Buffer): void => {
    const [from, reply] = bytes.toString().split(" ");
    if (reply === text) session = from;
  };
  client.on("message", onMessage);
  while (session === undefined) {
    client.send(text, port, "127.0.0.1");
    await sleep(20);
  }
  client.off("message", onMessage);
  return session;
}

test("the connections of the other worker go on, and the UDP port is served again by the one that replaces it", async () => {
  const backend = await startEcho();
  const [tcp, udp] = [await freePort(), await freePort()];
  const streamRoute = (kind: string, name: string) =>
    routeManifest(name, [`backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: ${name} }]`])
      .replace("kind: HTTPRoute", `kind: ${kind}`)
      .replace("name: web }", `name: web, sectionName: ${name} }`);
  const listeners = `    - { name: tcp, protocol: TCP, port: ${tcp} }\n    - { name: udp, protocol: UDP, port: ${udp} }\n`;
  const text = manifests(
    gatewayManifest(await freePort()) + listeners,
    backendManifest("tcp", backend.tcp),
    backendManifest("udp", backend.udp),
    streamRoute("TCPRoute", "tcp"),
    streamRoute("UDPRoute", "udp"),
  );
  const { resources } = parseManifests([{ path: "all.yaml", text }]);
  const clock = new FakeClock();
  const pool = startWorkerPool(2, clock);
  expect(await pool.apply(packed(1, translate(resources, onLoopback)))).toEqual([]);

  // Both workers get some of them; a UDP port belongs to one.
  const connections = await Promise.all(Array.from({ length: 24 }, () => openTcp(tcp)));
  expect(await Promise.all(connections.map(echoes))).toEqual(connections.map(() => true));
  const clients = await Promise.all(Array.from({ length: 24 }, openUdp));
  const sessions = await Promise.all(clients.map((client) => sessionOf(client, udp, "first")));

  const owner = udpWorkerOf(bindName({ address: "127.0.0.1", port: udp, transport: "UDP" }), 2);
  await pool.threads[owner - 1]?.terminate();
  await expect.poll(() => pool.size).toBe(1);
  const alive = (await Promise.all(connections.map(echoes))).filter((isAlive) => isAlive).length;
  expect(alive).toBeGreaterThan(0);
  expect(alive).toBeLessThan(connections.length);
  for (let at = 0; at < 8; at++) expect(await echoes(await openTcp(tcp))).toBe(true);

  clock.advance(1_000);
  // Its result arrives once the new worker serves.
  expect(await pool.apply(packed(2, translate(resources, onLoopback)))).toEqual([]);
  expect(pool.size).toBe(2);
  const renewed = await Promise.all(clients.map((client) => sessionOf(client, udp, "second")));
  expect(renewed).not.toEqual(sessions);

  // The port of sessions is that of one worker, so that they do not notice the end of another.
  await pool.threads[2 - owner]?.terminate();
  await expect.poll(() => pool.size).toBe(1);
  expect(await Promise.all(clients.map((client) => sessionOf(client, udp, "third")))).toEqual(renewed);
});
