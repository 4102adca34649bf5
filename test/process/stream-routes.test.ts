/**
 * TLSRoutes, TCPRoutes and UDPRoutes in the process that users run: manifests in a folder, real clients, the access log
 * and metrics.
 */
import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls, createServer as createTlsServer } from "node:tls";
import { type Decisions, decisionsSchema } from "@gatewayproxy/admin-api/decisions";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { backendManifest, manifests } from "../support/gateway.ts";
import { type Certificate, TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { type ProxyProcess, spawnProxy, startProxy } from "../support/proxy-process.ts";

const gateway = (...listeners: readonly string[]): string => `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: g, namespace: default }
spec:
  gatewayClassName: gateway-proxy
  addresses: [{ value: 127.0.0.1 }]
  listeners: [${listeners.join(", ")}]
`;

const route = (kind: string, name: string, backend: string, more = ""): string => `
apiVersion: gateway.networking.k8s.io/v1
kind: ${kind}
metadata: { name: ${name}, namespace: default }
spec:
  parentRefs: [{ name: g }]
  ${more}
  rules: [{ backendRefs: [{ group: gatewayproxy.dev, kind: Backend, name: ${backend} }] }]
`;

const policy = (kind: string, name: string, ...local: readonly string[]): string => `
apiVersion: gatewayproxy.dev/v1alpha1
kind: ProxyPolicy
metadata: { name: p, namespace: default }
spec:
  targetRefs: [{ group: gateway.networking.k8s.io, kind: ${kind}, name: ${name} }]
  traffic: { rateLimit: { local: [${local.join(", ")}] } }
`;

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** A server that sends its name and then what it gets. */
function echo(name: string): Server {
  return createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => undefined).write(name);
    socket.pipe(socket);
  });
}

function open(port: number): Socket {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true }).on("error", () => undefined);
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** The first bytes that come; empty if the connection is closed before. */
async function firstText(socket: Socket): Promise<string> {
  return await new Promise((resolve) => {
    socket.once("data", (bytes: Buffer) => resolve(bytes.toString()));
    socket.once("close", () => resolve(""));
  });
}

/** Resolves when a socket is closed, by an error or without one. */
async function closed(socket: Socket): Promise<void> {
  if (!socket.closed) await new Promise<void>((resolve) => socket.once("close", () => resolve()));
}

async function metric(proxy: ProxyProcess, name: string, ...labels: readonly string[]): Promise<number> {
  const text = await (await fetch(`${proxy.stats}/metrics`)).text();
  const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`));
  const found = lines.filter((line) => labels.every((label) => line.includes(label)));
  return found.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

async function denialsOf(proxy: ProxyProcess, query: string): Promise<Decisions["decisions"]> {
  const response = await fetch(`${proxy.admin}/limits/decisions${query}`);
  return decisionsSchema.parse(await response.json()).decisions;
}

const ended = (proxy: ProxyProcess, reason: string) =>
  proxy.logged((line) => line["module"] === "proxy::access" && line["reason"] === reason);

describe("a TCPRoute", () => {
  const start = async (more: string, args: readonly string[] = []) => {
    const port = await freePort();
    const backend = await listen(echo("tcp "));
    const base = [gateway(`{ name: tcp, port: ${port}, protocol: TCP }`), backendManifest("b", backend)];
    const files = { "all.yaml": manifests(...base, route("TCPRoute", "r", "b"), more) };
    return { port, base, proxy: await startProxy(files, args) };
  };

  test("relays, and the access log and metrics of all workers have the connection", async () => {
    const { port, proxy } = await start("", ["--workers", "2"]);
    for (let at = 0; at < 8; at++) {
      const client = open(port);
      expect(await firstText(client)).toBe("tcp ");
      client.write("hello");
      expect(await firstText(client)).toBe("hello");
      client.end();
      await closed(client);
    }
    expect(await ended(proxy, "ClientClosed")).toMatchObject({
      ...{ msg: "connection", protocol: "TCP", route: "TCPRoute/default/r", backend: "Backend/default/b over TCP" },
      ...{ requestBytes: 5, responseBytes: 9, source: "127.0.0.1" },
    });
    const labels = ['route="TCPRoute/default/r"', 'reason="ClientClosed"'];
    expect(await metric(proxy, "gateway_proxy_stream_connections_total", ...labels)).toBe(8);
    expect(await metric(proxy, "gateway_proxy_stream_bytes_total", 'direction="received"')).toBe(40);
  });

  test("has no more open connections over all workers than its policy allows, and a closed one frees its place", async () => {
    const { port, proxy } = await start(policy("TCPRoute", "r", "{ connections: 3 }"), ["--workers", "2"]);
    const clients = Array.from({ length: 12 }, () => open(port));
    const texts = await Promise.all(clients.map(firstText));
    expect(texts.filter((text) => text === "tcp ")).toHaveLength(3);
    expect(await ended(proxy, "RateLimited")).toMatchObject({ route: "TCPRoute/default/r" });
    expect(await metric(proxy, "gateway_proxy_limit_decisions_total", 'decision="denied"')).toBe(9);
    const limits = await (await fetch(`${proxy.admin}/limits`)).text();
    expect(limits).toContain("TCPRoute/default/r");
    const denials = await denialsOf(proxy, "?source=127.0.0.1");
    expect(denials).toHaveLength(9);
    expect(denials[0]).toMatchObject({
      ...{ kind: "connection", protocol: "TCP", source: "127.0.0.1", listener: "default/g/tcp" },
      ...{ route: "TCPRoute/default/r", policy: "default/p", target: "TCPRoute/default/r" },
      counter: { entry: 0, counts: "connections", used: 3, limit: 3 },
      remedies: ["the end of an open connection allows another", expect.stringContaining("local[0]")],
    });
    expect(await denialsOf(proxy, "")).toHaveLength(9);
    for (const other of ["?source=192.0.2.1", "?id=r-1", `?trace_id=${"a".repeat(32)}`]) {
      expect(await denialsOf(proxy, other)).toEqual([]);
    }
    expect(await (await fetch(`${proxy.admin}/config_dump`)).json()).toMatchObject({
      policies: [{ name: "p", local: [{ counts: "connections", amount: 3 }] }],
    });
    clients[texts.indexOf("tcp ")]?.destroy();
    await ended(proxy, "ClientClosed");
    expect(await firstText(open(port))).toBe("tcp ");
  });

  test("keeps its connections while other parts of the configuration change, and closes them when it goes", async () => {
    const { port, base, proxy } = await start("");
    const client = open(port);
    expect(await firstText(client)).toBe("tcp ");
    const limited = policy("TCPRoute", "r", "{ connections: 1 }");
    await proxy.write("all.yaml", manifests(...base, route("TCPRoute", "r", "b"), limited));
    await proxy.logged(({ msg, generation }) => msg === "configuration in force" && generation === 2);
    client.write("still");
    expect(await firstText(client)).toBe("still");
    await proxy.write("all.yaml", manifests(...base));
    await closed(client);
    expect(await ended(proxy, "RouteChanged")).toMatchObject({ route: "TCPRoute/default/r" });
  });

  test("SIGTERM: open connections go on until the drain timeout, new ones are rejected, exit 0", async () => {
    const { port, proxy } = await start("", ["--drain-timeout", "4s", "--drain-delay", "0s", "--workers", "2"]);
    const client = open(port);
    expect(await firstText(client)).toBe("tcp ");
    proxy.kill("SIGTERM");
    while ((await firstText(open(port))) !== "") await sleep(10);
    client.write("late");
    expect(await firstText(client)).toBe("late");
    await closed(client);
    expect(await ended(proxy, "Drained")).toMatchObject({ route: "TCPRoute/default/r" });
    expect(await proxy.exited).toBe(0);
  });
});

describeWith(["openssl"], "TLSRoutes", ({ openssl }) => {
  let directory: string;
  let ca: string;
  let certificate: Certificate;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "stream-routes-"));
    const authority = new TestAuthority(openssl, directory, "authority");
    ca = authority.authority.cert;
    certificate = authority.issue("a", "DNS:*.pass.test", "DNS:*.end.test");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  function openTls(port: number, servername: string | undefined): Promise<string> {
    const socket = connectTls({
      port,
      host: "127.0.0.1",
      ca,
      ...(servername !== undefined && { servername }),
      checkServerIdentity: () => undefined,
    });
    onTestFinished(() => void socket.destroy());
    return new Promise((resolve) => {
      socket.once("error", (error: Error & { code?: string }) => resolve(error.code ?? error.message));
      socket.once("data", (bytes: Buffer) => resolve(bytes.toString()));
    });
  }

  async function start(more = "", args: readonly string[] = []) {
    const port = await freePort();
    const { cert, key } = certificate;
    const secure = createTlsServer({ cert, key }, (socket) => void socket.on("error", () => undefined).write("passed"));
    const plain = await listen(echo("ended"));
    const indented = (text: string): string => text.trim().replaceAll("\n", "\n    ");
    const secret = `
apiVersion: v1
kind: Secret
metadata: { name: cert, namespace: default }
type: kubernetes.io/tls
stringData:
  tls.crt: |
    ${indented(cert)}
  tls.key: |
    ${indented(key)}
`;
    const listeners = [
      `{ name: pass, port: ${port}, protocol: TLS, hostname: "*.pass.test", tls: { mode: Passthrough } }`,
      `{ name: end, port: ${port}, protocol: TLS, hostname: "*.end.test", tls: { certificateRefs: [{ name: cert }] } }`,
    ];
    const text = manifests(
      gateway(...listeners),
      secret,
      backendManifest("secure", await listen(secure)),
      backendManifest("plain", plain),
      route("TLSRoute", "pass", "secure", "hostnames: [a.pass.test]"),
      route("TLSRoute", "end", "plain", 'hostnames: ["*.end.test"]'),
      more,
    );
    return { port, proxy: await startProxy({ "all.yaml": text }, args) };
  }

  test("are chosen by server name, with Passthrough and Terminate on one port, and other names are closed", async () => {
    const { port, proxy } = await start("", ["--workers", "2"]);
    expect(await openTls(port, "a.pass.test")).toBe("passed");
    expect(await openTls(port, "b.end.test")).toBe("ended");
    for (const name of ["b.pass.test", "other.test", undefined]) expect(await openTls(port, name)).toBe("ECONNRESET");
    expect(await ended(proxy, "RouteNotFound")).toMatchObject({ protocol: "TLS" });
    const rejected = await proxy.logged(
      ({ serverName, reason }) => serverName === "b.pass.test" && reason !== undefined,
    );
    expect(rejected).toMatchObject({ reason: "RouteNotFound" });
  });

  test("have limits of connections by server name", async () => {
    const { port, proxy } = await start(policy("TLSRoute", "end", "{ connections: 1, key: tls.serverName }"));
    expect(await openTls(port, "a.end.test")).toBe("ended");
    expect(await openTls(port, "a.end.test")).toMatch(/ACCESS_DENIED/);
    expect(await openTls(port, "b.end.test")).toBe("ended");
    expect(await denialsOf(proxy, "")).toMatchObject([
      { kind: "connection", protocol: "TLS", serverName: "a.end.test", counter: { key: { text: "a.end.test" } } },
    ]);
  });

  test("read a ClientHello in pieces, and close connections that begin otherwise", async () => {
    const { port, proxy } = await start();
    const hello = await helloOf("a.pass.test");
    const slow = open(port);
    slow.setNoDelay(true);
    const reply = firstText(slow);
    // Records of 16 bytes, each byte in a packet of its own.
    for (const byte of inRecords(hello, 16)) {
      slow.write(Buffer.from([byte]));
      await new Promise(setImmediate);
    }
    expect((await reply).charCodeAt(0)).toBe(22);
    for (const bytes of [
      Buffer.from("GET / HTTP/1.1\r\nhost: a.pass.test\r\n\r\n"),
      // A ClientHello of 16 MiB.
      Buffer.from([22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff]),
      Buffer.from([22, 3, 1, 0, 0]),
      Buffer.from([21, 3, 1, 0, 2, 2, 40]),
    ]) {
      const client = open(port);
      client.write(bytes);
      await closed(client.resume());
    }
    expect(await ended(proxy, "BadClientHello")).toMatchObject({ protocol: "TLS" });
    expect(await metric(proxy, "gateway_proxy_stream_connections_total", 'reason="BadClientHello"')).toBe(4);
  });
});

/** The first message of a client of TLS. */
async function helloOf(servername: string): Promise<Buffer> {
  const { promise, resolve } = Promise.withResolvers<Buffer>();
  const port = await listen(createServer((socket) => socket.on("error", () => undefined).once("data", resolve)));
  const socket = connectTls({ port, host: "127.0.0.1", servername }).on("error", () => undefined);
  const hello = await promise;
  socket.destroy();
  return hello;
}

/** The message of one record in several. */
function inRecords(record: Buffer, size: number): Buffer {
  const message = record.subarray(5);
  const records: Buffer[] = [];
  // Not more than 64, which are too many.
  const step = Math.max(size, Math.ceil(message.length / 60));
  for (let at = 0; at < message.length; at += step) {
    const part = message.subarray(at, at + step);
    records.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(records);
}

describe("a UDPRoute", () => {
  async function udp(): Promise<UdpSocket> {
    const socket = createSocket("udp4");
    socket.bind(0, "127.0.0.1");
    await once(socket, "listening");
    onTestFinished(() => void socket.close());
    return socket;
  }

  /** A server that sends back the port of its client, and what it has sent. */
  async function server(): Promise<{ readonly port: number; readonly sources: Map<string, Set<number>> }> {
    const socket = await udp();
    const sources = new Map<string, Set<number>>();
    socket.on("message", (datagram, { port, address }) => {
      const client = datagram.toString().split(" ", 1)[0] ?? "";
      sources.set(client, (sources.get(client) ?? new Set()).add(port));
      socket.send(`${port} ${datagram.toString()}`, port, address);
    });
    return { port: socket.address().port, sources };
  }

  async function start(more = "", args: readonly string[] = []) {
    const port = await freePort();
    const { port: backend, sources } = await server();
    const text = manifests(
      gateway(`{ name: udp, port: ${port}, protocol: UDP }`),
      backendManifest("b", backend),
      route("UDPRoute", "r", "b"),
      more,
    );
    return { port, sources, proxy: await startProxy({ "all.yaml": text }, args) };
  }

  async function ask(client: UdpSocket, port: number, text: string): Promise<readonly string[]> {
    const reply = once(client, "message") as Promise<[Buffer]>;
    client.send(text, port, "127.0.0.1");
    return (await reply)[0].toString().split(" ");
  }

  test("has a session for each client, which gets its own replies, and ends when it is idle", async () => {
    const { port, proxy } = await start("", ["--udp-idle-timeout", "1s"]);
    const [a, b] = [await udp(), await udp()];
    const [first] = await ask(a, port, "a 1");
    const [other, , ...text] = await ask(b, port, "b 1");
    expect([text, other === first]).toEqual([["1"], false]);
    expect(await ask(a, port, "a 2")).toEqual([first, "a", "2"]);
    expect(await ended(proxy, "IdleTimeout")).toMatchObject({
      ...{ msg: "session", protocol: "UDP", route: "UDPRoute/default/r", source: "127.0.0.1" },
    });
    expect(await metric(proxy, "gateway_proxy_stream_connections_total", 'route="UDPRoute/default/r"')).toBeGreaterThan(
      0,
    );
  });

  test("has no more sessions than its policy allows", async () => {
    const { port, proxy } = await start(policy("UDPRoute", "r", "{ connections: 2 }"), ["--workers", "2"]);
    await ask(await udp(), port, "a");
    await ask(await udp(), port, "b");
    const third = await udp();
    third.send("c", port, "127.0.0.1");
    await ended(proxy, "RateLimited");
    expect(await metric(proxy, "gateway_proxy_stream_datagrams_dropped_total", 'reason="RateLimited"')).toBe(1);
    expect(await denialsOf(proxy, "")).toMatchObject([
      { kind: "connection", protocol: "UDP", source: "127.0.0.1", counter: { used: 2, limit: 2 } },
    ]);
  });

  test("keeps each session in one worker, from the start of the process to its end", async () => {
    const port = await freePort();
    const { port: backend, sources } = await server();
    const listeners = gateway(`{ name: udp, port: ${port}, protocol: UDP }`);
    const text = manifests(listeners, backendManifest("b", backend), route("UDPRoute", "r", "b"));
    const args = ["--workers", "2", "--drain-timeout", "10s", "--drain-delay", "0s"];
    const proxy = await spawnProxy({ "all.yaml": text }, args);
    const clients = await Promise.all(Array.from({ length: 20 }, udp));
    const ready = proxy.logged(({ msg }) => msg === "ready").then(() => true);
    // They begin before the last worker has its socket.
    while (!(await Promise.race([ready, sleep(5, false)]))) {
      for (const [at, client] of clients.entries()) client.send(`${at} early`, port, "127.0.0.1");
    }
    await Promise.all(clients.map((client, at) => ask(client, port, `${at} ready`)));
    expect([...sources.values()].map(({ size }) => size)).toEqual(clients.map(() => 1));
    // The others end while it drains, and so would their workers.
    proxy.kill("SIGTERM");
    const lasting = clients.slice(0, 2);
    for (const end = Date.now() + 3_000; Date.now() < end; ) {
      await Promise.all(lasting.map((client, at) => ask(client, port, `${at} late`)));
      await sleep(50);
    }
    expect([...sources.values()].map(({ size }) => size)).toEqual(clients.map(() => 1));
    expect(await proxy.exited).toBe(0);
  }, 60_000);
});
