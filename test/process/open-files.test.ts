/**
 * A process with a low limit of open files: the sockets of one client address do not use all of them up, and a shortage
 * is no failure of an endpoint.
 */
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { Agent, get, type RequestOptions, type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { ConfigDump } from "@gatewayproxy/admin-api/config-dump";
import { respondWith, startBackend } from "../support/backend.ts";
import { freePort } from "../support/free-port.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  serviceManifest,
} from "../support/gateway.ts";
import { type ProxyProcess, startProxy } from "../support/proxy-process.ts";

const openFiles = 512;

interface Served {
  readonly proxy: ProxyProcess;
  readonly http: number;
  readonly udp: number;
}

async function serve(): Promise<Served> {
  const backend = await startBackend(respondWith(200, "ok"));
  const echo = createSocket("udp4").bind(0, "127.0.0.1");
  echo.on("message", (text, { port, address }) => echo.send(text, port, address));
  await once(echo, "listening");
  onTestFinished(() => void echo.close());
  const [http, udp] = [await freePort(), await freePort()];
  const reference = "backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: udp }]";
  const text = manifests(
    `${gatewayManifest(http)}    - { name: udp, protocol: UDP, port: ${udp} }\n`,
    backendManifest("http", backend.port),
    backendManifest("udp", echo.address().port),
    routeManifest("http", [`backendRefs: [${backendRef("http")}]`]),
    routeManifest("udp", [reference])
      .replace("kind: HTTPRoute", "kind: UDPRoute")
      .replace("name: web }", "name: web, sectionName: udp }"),
  );
  const args = ["--listen-address", "127.0.0.1", "--access-log", "off"];
  const proxy = await startProxy({ "all.yaml": text }, args, {}, undefined, undefined, openFiles);
  return { proxy, http, udp };
}

async function openFrom(localAddress: string, port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", localAddress }).on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect").catch(() => undefined);
  return socket;
}

async function statusFor(
  localAddress: string,
  port: number,
  options: Pick<RequestOptions, "agent" | "path"> = {},
): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const request = get({ port, host: "127.0.0.1", localAddress, agent: false, ...options }, (response) => {
    response.resume().once("end", () => resolve(response.statusCode));
  });
  request.once("error", reject);
  return await promise;
}

test("connections of one address leave open files for others, and for the pages of operators", async () => {
  const { proxy, http } = await serve();
  const opened: Socket[] = [];
  for (let at = 0; at < openFiles + 100; at++) opened.push(await openFrom("127.0.0.2", http));
  const ports = [proxy.stats, proxy.readiness, proxy.admin].map((url) => Number(new URL(url).port));
  for (const port of ports) for (let at = 0; at < openFiles / 2; at++) await openFrom("127.0.0.2", port);
  expect(await statusFor("127.0.0.3", http)).toBe(200);
  expect((await fetch(`${proxy.readiness}/healthz/ready`)).status).toBe(200);
  expect((await fetch(`${proxy.stats}/metrics`)).status).toBe(200);
  // Half of the open files are for connections of clients.
  await expect.poll(() => opened.filter(({ closed }) => !closed).length).toBeLessThanOrEqual(openFiles / 2);
});

test("sessions of one address leave open files for others", async () => {
  const { proxy, http, udp } = await serve();
  const clients = await Promise.all(Array.from({ length: openFiles }, openUdp));
  onTestFinished(() => clients.forEach((client) => client.close()));
  for (const client of clients) client.send("hello", udp, "127.0.0.1");
  const dropped = /^gateway_proxy_stream_datagrams_dropped_total\{.*reason="Shed"\} [1-9]/m;
  await expect.poll(async () => await (await fetch(`${proxy.stats}/metrics`)).text()).toMatch(dropped);
  expect(await statusFor("127.0.0.3", http)).toBe(200);
});

async function openUdp(): Promise<UdpSocket> {
  const socket = createSocket("udp4").bind(0, "127.0.0.2");
  await once(socket, "listening");
  return socket;
}

interface ManyEndpoints {
  readonly proxy: ProxyProcess;
  readonly port: number;
  /** The responses of slow endpoints. */
  readonly held: ServerResponse[];
  /** Requests `/slow-0` to `/slow-11` in turn, each of which is held. */
  readonly holdNext: () => Promise<number | undefined>;
}

/** Twelve slow endpoints, and a Service with two fast ones. */
async function serveMany(openFiles: number, workers: string): Promise<ManyEndpoints> {
  const held: ServerResponse[] = [];
  const slow = await Promise.all(
    Array.from({ length: 12 }, () => startBackend((_, response) => void held.push(response))),
  );
  const fast = await Promise.all(Array.from({ length: 2 }, () => startBackend(respondWith(200, "ok"))));
  const port = await freePort();
  const rule = (path: string, ref: string): string =>
    `{ matches: [{ path: { value: /${path} } }], backendRefs: [${ref}] }`;
  const text = manifests(
    gatewayManifest(port),
    serviceManifest(
      "fast",
      fast.map((each) => each.port),
    ),
    ...slow.map((each, at) => backendManifest(`slow-${at}`, each.port)),
    routeManifest("all", [
      rule("fast", "{ name: fast, port: 80 }"),
      ...slow.map((_, at) => rule(`slow-${at}`, backendRef(`slow-${at}`))),
    ]),
  );
  const args = ["--listen-address", "127.0.0.1", "--access-log", "off", "--workers", workers];
  const proxy = await startProxy({ "all.yaml": text }, args, {}, undefined, undefined, openFiles);
  let sent = 0;
  const holdNext = (): Promise<number | undefined> => {
    return statusFor("127.0.0.2", port, { path: `/slow-${sent++ % slow.length}` }).catch(() => undefined);
  };
  return { proxy, port, held, holdNext };
}

test("requests of one address to many slow endpoints leave open files for requests of others", async () => {
  const { port, held, holdNext, proxy } = await serveMany(openFiles, "2");
  for (let at = 0; at < openFiles / 2; at++) void holdNext();
  await expect.poll(() => held.length).toBeGreaterThan(openFiles / 8);
  for (let at = 0; at < 20; at++) expect(await statusFor("127.0.0.3", port, { path: "/fast" })).toBe(200);
  expect((await fetch(`${proxy.readiness}/healthz/ready`)).status).toBe(200);
});

test("an endpoint is not ejected because the proxy has no open file left for a connection to it", async () => {
  // So few that connections of clients use all of them up before they have their half.
  const { proxy, port } = await serveMany(48, "1");
  const agent = keepAliveAgent();
  expect(await statusFor("127.0.0.3", port, { path: "/none", agent })).toBe(404);
  const idle: Agent[] = [];
  do idle.push(keepAliveAgent());
  while (await isServed(port, idle.at(-1)));
  for (let at = 0; at < 20; at++) expect(await statusFor("127.0.0.3", port, { path: "/fast", agent })).toBe(503);

  for (const each of idle) each.destroy();
  await expect.poll(() => statusFor("127.0.0.3", port, { path: "/fast", agent })).toBe(200);
  const dump = (await (await fetch(`${proxy.admin}/config_dump`)).json()) as ConfigDump;
  const endpoints = dump.backends.filter(({ name }) => name === "fast").flatMap((backend) => backend.endpoints);
  expect(endpoints.map(({ timesEjected }) => timesEjected)).toEqual([0, 0]);
});

/** Whether the proxy has accepted a connection of `agent`, which is kept. */
async function isServed(port: number, agent: Agent | undefined): Promise<boolean> {
  const status = statusFor("127.0.0.2", port, { path: "/none", agent });
  return await status.then(
    () => true,
    () => false,
  );
}

function keepAliveAgent(): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  return agent;
}
