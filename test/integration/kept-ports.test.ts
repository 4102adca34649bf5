/**
 * The side that closes a TCP connection first keeps its local port for a minute. A client that opens and ends
 * connections cannot cause the gateway to use up its ports towards an endpoint.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "node:tls";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, onTestFinished, test } from "vitest";
import type { Backend } from "../../proxy/src/ir/snapshot.ts";
import { EndpointSocket } from "../../proxy/src/connect/endpoint-socket.ts";
import { LocalPorts } from "../../proxy/src/connect/local-ports.ts";
import { defaultUpstream } from "../../proxy/src/upstream/upstream-settings.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { openFrom } from "../support/proxied-client.ts";
import {
  startStreams,
  startTcp,
  streamBackend,
  streamBind,
  streamListener,
  streamRoute,
} from "../support/stream-gateway.ts";

const upstream = { ...defaultUpstream, maxKeptPorts: 8 };
/** Longer than a port is kept. */
const keptMs = 70_000;

/** A server that records how the connections of its clients end. */
async function startServer(serve: (socket: Socket) => void = () => undefined) {
  const ends: ("end" | "reset")[] = [];
  const { port } = await startTcp((socket) => {
    socket.on("error", () => ends.push("reset"));
    socket.once("end", () => {
      ends.push("end");
      socket.end();
    });
    socket.resume();
    serve(socket);
  });
  const nextEnd = async () => {
    const count = ends.length;
    await expect.poll(() => ends.length).toBe(count + 1);
    return ends.at(-1);
  };
  return { port, nextEnd };
}

/** A gateway that relays connections to `port`. */
async function startRelay(port: number, rest: Partial<Backend> = {}) {
  const backend = streamBackend("a", [port], rest);
  const { clock, ...gateway } = await startStreams(
    { binds: [streamBind([streamListener("TCP", [streamRoute("a", [backend])])])], backends: [backend] },
    { upstream, expectsProxyHeader: true },
  );
  const openAndEnd = (address: string): Socket => {
    const socket = connect(gateway.port(), "127.0.0.1");
    socket.on("error", () => undefined).resume();
    socket.end(`PROXY TCP4 ${address} 10.9.9.9 1 2\r\nhello`);
    return socket;
  };
  return { clock, openAndEnd };
}

/** A gateway that sends requests to `port`. */
function startHttp(port: number, options: { readonly expectsProxyHeader?: boolean } = {}): Promise<TestGateway> {
  const route = routeManifest("r", [`{ backendRefs: [${backendRef("b")}] }`]);
  return startGateway(manifests(gatewayManifest(), backendManifest("b", port), route), { upstream, ...options });
}

test("connections of a client that has more ports than the average are reset from half of the maximum on", async () => {
  const { port, nextEnd } = await startServer();
  const { clock, openAndEnd } = await startRelay(port);
  const ends = async (address: string, count: number) => {
    const all = [];
    for (let at = 0; at < count; at++) {
      const next = nextEnd();
      openAndEnd(address);
      all.push(await next);
    }
    return all;
  };
  expect(await ends("10.0.0.1", 6)).toEqual(["end", "end", "end", "end", "reset", "reset"]);
  expect(await ends("10.0.0.2", 3)).toEqual(["end", "end", "end"]);
  expect(await ends("10.0.0.1", 1)).toEqual(["reset"]);
  clock.advance(keptMs);
  expect(await ends("10.0.0.1", 1)).toEqual(["end"]);
});

test("tunnels are reset alike", async () => {
  const { port, nextEnd } = await startServer((socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
  });
  const gateway = await startHttp(port, { expectsProxyHeader: true });
  const ends = [];
  for (let at = 0; at < 6; at++) {
    const upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    const { socket, text } = openFrom(gateway, "10.0.0.1", upgrade);
    await expect.poll(text).toContain("101 Switching Protocols");
    const next = nextEnd();
    socket.end();
    ends.push(await next);
  }
  expect(ends).toEqual(["end", "end", "end", "end", "reset", "reset"]);
});

test("connections that a backend does not keep alive, and leaves to the gateway to close, are reset alike", async () => {
  const { port, nextEnd } = await startServer((socket) => {
    socket.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
  });
  const gateway = await startHttp(port);
  const ends = [];
  for (let at = 0; at < 6; at++) {
    const next = nextEnd();
    expect(await (await fetch(gateway.url())).text()).toBe("ok");
    ends.push(await next);
  }
  expect(ends).toEqual(["end", "end", "end", "end", "reset", "reset"]);
});

test("connections that are idle are reset alike", async () => {
  let ended = 0;
  let reset = 0;
  const held: Socket[] = [];
  const { port } = await startTcp((socket) => {
    socket.on("error", () => reset++).once("end", () => ended++);
    socket.once("data", () => held.push(socket));
  });
  const gateway = await startHttp(port);
  const responses = Array.from({ length: 6 }, () => fetch(gateway.url()));
  await expect.poll(() => held.length).toBe(6);
  for (const socket of held) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  for (const response of responses) await (await response).text();
  gateway.clock.advance(10_000);
  await expect.poll(() => ({ ended, reset })).toEqual({ ended: 4, reset: 2 });
});

describeWith(["openssl"], "a backend with TLS", ({ openssl }) => {
  test("gets the whole connection closed, where the end of one side would keep a port", async () => {
    const directory = mkdtempSync(join(tmpdir(), "kept-ports-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const authority = new TestAuthority(openssl, directory, "authority");
    const { cert, key } = authority.issue("a", "DNS:a.example");
    const held = new Set<Socket>();
    const server = createServer({ cert, key, allowHalfOpen: true }, (socket) => {
      socket.on("error", () => undefined).resume();
      socket.once("end", () => void held.add(socket));
      socket.once("close", () => void held.delete(socket));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const tls = { hostname: "a.example", authorities: [authority.authority.cert] };
    const { openAndEnd } = await startRelay((server.address() as AddressInfo).port, { tls });
    for (let at = 0; at < 4; at++) {
      const client = openAndEnd("10.0.0.1");
      await expect.poll(() => held.size).toBe(1);
      for (const socket of held) socket.end();
      await once(client, "close");
    }
    await expect(once(openAndEnd("10.0.0.1"), "close")).rejects.toThrow("ECONNRESET");
  });
});

test("the port of a connection that is closed while bytes and its end wait to be sent is counted", async () => {
  const held = new Set<Socket>();
  const { port } = await startTcp((socket) => held.add(socket.on("error", () => undefined).pause()));
  const ports = new LocalPorts(new FakeClock(), 4);
  const use = { address: `127.0.0.1:${port}`, client: "a" };
  for (let at = 0; at < 2; at++) {
    expect(ports.mustReset(use)).toBe(false);
    const socket = new EndpointSocket({}, { ports, use }).connect(port, "127.0.0.1");
    await once(socket, "connect");
    socket.end(Buffer.alloc(64 * 1024 * 1024));
    socket.destroy();
    await once(socket, "close");
  }
  expect(ports.mustReset(use)).toBe(true);
  for (const socket of held) socket.destroy();
});

test("at the maximum, connections of all clients are reset", () => {
  const ports = new LocalPorts(new FakeClock(), 4);
  const use = (client: string) => ({ address: "10.0.0.9:80", client });
  for (const client of ["a", "a", "a", "b"]) ports.add(use(client));
  expect(ports.mustReset(use("c"))).toBe(true);
  expect(ports.mustReset({ address: "10.0.0.9:81", client: "c" })).toBe(false);
});
