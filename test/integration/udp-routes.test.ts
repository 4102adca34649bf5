/** UDP listeners, end to end: sessions by client address and port, and their bounds. */
import { createSocket, Socket } from "node:dgram";
import { once } from "node:events";
import { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Backend, StreamRoute } from "../../proxy/src/ir/snapshot.ts";
import {
  connectionLimit,
  refTo,
  startStreams,
  type StreamGateway,
  type StreamGatewayOptions,
  streamBackend,
  streamBind,
  streamListener,
  streamRoute,
} from "../support/stream-gateway.ts";

async function udpSocket(address = "127.0.0.1"): Promise<Socket> {
  const socket = createSocket("udp4");
  socket.bind(0, address);
  await once(socket, "listening");
  onTestFinished(() => void new Promise<void>((resolve) => socket.close(resolve)).catch(() => undefined));
  return socket;
}

/** A server that sends back what it gets, behind its name. */
async function named(name: string, rest: Partial<Backend> = {}): Promise<Backend> {
  const socket = await udpSocket();
  socket.on("message", (datagram, from) => socket.send(`${name} ${datagram.toString()}`, from.port, from.address));
  return streamBackend(name, [socket.address().port], { protocol: "udp", ...rest });
}

const udpRoute = (
  name: string,
  refs: Parameters<typeof streamRoute>[1],
  rest: Partial<StreamRoute> = {},
): StreamRoute => streamRoute(name, refs, { kind: "UDPRoute", ...rest });

function start(
  routes: readonly StreamRoute[],
  backends: readonly Backend[],
  options: StreamGatewayOptions = {},
): Promise<StreamGateway> {
  return startStreams({ binds: [bindOf(...routes)], backends }, options);
}

function bindOf(...routes: readonly StreamRoute[]) {
  return streamBind([streamListener("UDP", routes)]);
}

async function ask(client: Socket, gateway: StreamGateway, text: string): Promise<string> {
  const reply = once(client, "message") as Promise<[Buffer]>;
  client.send(text, gateway.port(9_000, "UDP"), "127.0.0.1");
  return (await reply)[0].toString();
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate);
}

describe("a UDP listener", () => {
  test("relays datagrams and replies of sessions, from its own port, and records them", async () => {
    const backend = await named("a");
    const gateway = await start([udpRoute("r", [backend])], [backend]);
    const [one, other] = [await udpSocket(), await udpSocket()];
    expect(await ask(one, gateway, "1")).toBe("a 1");
    expect(await ask(other, gateway, "2")).toBe("a 2");
    expect(await ask(one, gateway, "3")).toBe("a 3");
    expect(gateway.open.size).toBe(2);
    const ended = gateway.ended(2);
    gateway.clock.advance(61_000);
    expect(await ended).toMatchObject([
      {
        protocol: "UDP",
        receivedBytes: 2,
        sentBytes: 6,
        reason: "IdleTimeout",
        route: "UDPRoute/default/r",
        attempts: 1,
      },
      { receivedBytes: 1, sentBytes: 3, reason: "IdleTimeout" },
    ]);
    expect(gateway.counted).toEqual({ received: 3, sent: 9 });
  });

  test("keeps a session at its endpoint, which is chosen by weight for each session", async () => {
    const [a, b] = [await named("a"), await named("b")];
    const gateway = await start([udpRoute("r", [refTo(a, 1), refTo(b, 1)])], [a, b]);
    const names: string[] = [];
    for (let at = 0; at < 4; at++) {
      const client = await udpSocket();
      const [first] = (await ask(client, gateway, "x")).split(" ");
      expect(await ask(client, gateway, "y")).toBe(`${first} y`);
      names.push(first ?? "");
    }
    expect(names.toSorted()).toEqual(["a", "a", "b", "b"]);
  });

  test("keeps a session open while datagrams come within its idle timeout", async () => {
    const backend = await named("a");
    const gateway = await start([udpRoute("r", [backend])], [backend]);
    const client = await udpSocket();
    for (let at = 0; at < 3; at++) {
      await ask(client, gateway, "x");
      gateway.clock.advance(50_000);
    }
    expect(gateway.open.size).toBe(1);
  });

  test("relays datagrams of any length", async () => {
    const backend = await named("a");
    const gateway = await start([udpRoute("r", [backend])], [backend]);
    const client = await udpSocket();
    expect(await ask(client, gateway, "")).toBe("a ");
    expect(await ask(client, gateway, "x".repeat(60_000))).toBe(`a ${"x".repeat(60_000)}`);
  });

  test("ends a session whose endpoint does not listen, and counts that against the endpoint", async () => {
    const gone = createSocket("udp4");
    gone.bind(0, "127.0.0.1");
    await once(gone, "listening");
    const { port } = gone.address();
    await new Promise<void>((resolve) => gone.close(resolve));
    const backend = streamBackend("a", [port], { protocol: "udp" });
    const gateway = await start([udpRoute("r", [backend])], [backend]);
    const client = await udpSocket();
    const ended = gateway.ended();
    client.send("x", gateway.port(9_000, "UDP"), "127.0.0.1");
    expect(await ended).toMatchObject([{ reason: "UpstreamConnectFailure" }]);
    expect(gateway.dataPlane.endpoints()).toMatchObject([{ consecutiveFailures: 1, pending: 0 }]);
  });

  test("drops a datagram that no endpoint can get, and counts it against none", async () => {
    const backend = await named("a");
    const bind = streamBind([streamListener("UDP", [udpRoute("r", [backend])])], { address: "::1" });
    const gateway = await startStreams({ binds: [bind], backends: [backend] });
    const port = gateway.dataPlane.portOf("::1", 9_000, "UDP") ?? 0;
    const client = createSocket("udp6").bind(0, "::1");
    await once(client, "listening");
    onTestFinished(() => void client.close());
    // Over IPv6 a datagram has up to 65,527 bytes, over IPv4 up to 65,507.
    client.send(Buffer.alloc(65_520), port, "::1");
    await until(() => gateway.dropped.length > 0 || gateway.records.length > 0);
    expect(gateway.dropped).toEqual(["TooLarge"]);
    expect(gateway.dataPlane.endpoints()).toMatchObject([{ consecutiveFailures: 0, pending: 1 }]);
    const reply = once(client, "message") as Promise<[Buffer]>;
    client.send("x", port, "::1");
    expect((await reply)[0].toString()).toBe("a x");
  });

  test("relays datagrams from port 0, and drops the replies", async () => {
    const backend = await named("a");
    const bound = vi.spyOn(Socket.prototype, "bind");
    const gateway = await start([udpRoute("r", [backend])], [backend]);
    const listening = bound.mock.contexts.at(-1) as Socket | undefined;
    bound.mockRestore();
    // To send from port 0 takes a raw socket.
    listening?.emit("message", Buffer.from("x"), { address: "127.0.0.1", port: 0, family: "IPv4", size: 1 });
    await until(() => gateway.dropped.length > 0);
    expect(gateway.dropped).toEqual(["NoSourcePort"]);
    expect([...gateway.open]).toMatchObject([{ receivedBytes: 1, sentBytes: 3 }]);
  });

  test("ends no session of others for one that a limit denies", async () => {
    const backend = await named("a");
    const streams = { tcpIdleTimeoutMs: 0, udpIdleTimeoutMs: 60_000, maxSessions: 4 };
    const limits = [connectionLimit(1, { when: 'source.address == "127.0.0.2"' })];
    const gateway = await start([udpRoute("r", [backend], { limits })], [backend], { streams });
    for (const address of ["127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2"]) {
      await ask(await udpSocket(address), gateway, "x");
    }
    (await udpSocket("127.0.0.2")).send("x", gateway.port(9_000, "UDP"), "127.0.0.1");
    await until(() => gateway.dropped.length > 0);
    expect(gateway.dropped).toEqual(["RateLimited"]);
    expect(gateway.open.size).toBe(4);
  });

  test.each<[string, (own: Backend) => readonly StreamRoute[], string]>([
    ["a route", () => [], "RouteNotFound"],
    ["a backend", () => [udpRoute("r", [])], "InvalidBackend"],
    ["a policy that can be read", (own) => [udpRoute("r", [own], { refusedPolicies: ["default/p"] })], "PolicyRefused"],
    ["a permitted address", (own) => [udpRoute("r", [own])], "ForbiddenAddress"],
  ])("drops and counts datagrams without %s", async (_, routes, reason) => {
    const backend = await named("a");
    const [{ port } = { port: 0 }] = backend.endpoints;
    const addresses = new AddressGuard({ own: [{ host: "127.0.0.1", port }], deniesSpecial: false, allowed: [] });
    const gateway = await start(routes(backend), [backend], { addresses });
    const client = await udpSocket();
    client.send("x", gateway.port(9_000, "UDP"), "127.0.0.1");
    await until(() => gateway.dropped.length > 0);
    expect(gateway.dropped).toEqual([reason]);
    expect(gateway.open.size).toBe(0);
  });

  test("shares its sessions fairly between addresses", async () => {
    const backend = await named("a");
    const streams = { tcpIdleTimeoutMs: 0, udpIdleTimeoutMs: 60_000, maxSessions: 4 };
    const gateway = await start([udpRoute("r", [backend])], [backend], { streams });
    const clients: Socket[] = [];
    for (let at = 0; at < 4; at++) clients.push(await udpSocket());
    for (const client of clients) await ask(client, gateway, "x");
    // One more of the same address finds no place.
    const more = await udpSocket();
    more.send("x", gateway.port(9_000, "UDP"), "127.0.0.1");
    await until(() => gateway.dropped.length > 0);
    expect(gateway.dropped).toEqual(["Shed"]);
    // Another address takes the oldest one.
    const ended = gateway.ended();
    expect(await ask(await udpSocket("127.0.0.2"), gateway, "y")).toBe("a y");
    expect(await ended).toMatchObject([{ reason: "Shed", sourceAddress: "127.0.0.1" }]);
    expect(gateway.open.size).toBe(4);
  });

  test("keeps sessions over edits of the route, and ends those of a backend that it leaves", async () => {
    const [a, b] = [await named("a"), await named("b")];
    const gateway = await start([udpRoute("r", [a])], [a]);
    const client = await udpSocket();
    await ask(client, gateway, "x");
    await gateway.apply({ binds: [bindOf(udpRoute("r", [refTo(b, 5), refTo(a, 1)]))], backends: [a, b] });
    expect(await ask(client, gateway, "y")).toBe("a y");
    const ended = gateway.ended();
    await gateway.apply({ binds: [bindOf(udpRoute("r", [b]))], backends: [b] });
    expect(await ended).toMatchObject([{ reason: "RouteChanged" }]);
    expect(await ask(client, gateway, "z")).toBe("b z");
  });

  test("ends a session 30 s after its endpoint was removed, since another pod may have its address", async () => {
    const [a, b] = [await named("a"), await named("b")];
    const gateway = await start([udpRoute("r", [a])], [a]);
    const client = await udpSocket();
    await ask(client, gateway, "x");
    const moved = { ...a, endpoints: b.endpoints };
    await gateway.apply({ binds: [bindOf(udpRoute("r", [moved]))], backends: [moved] });
    expect(await ask(client, gateway, "y")).toBe("a y");
    const ended = gateway.ended();
    // A session is looked at from time to time.
    gateway.clock.advance(10_000);
    expect(await ask(client, gateway, "z")).toBe("a z");
    gateway.clock.advance(30_000);
    expect(await ended).toMatchObject([{ reason: "EndpointRemoved" }]);
    expect(await ask(client, gateway, "z")).toBe("b z");
  });

  test("drains: sessions end when they are idle for two seconds, and none begins", async () => {
    const backend = await named("a");
    const gateway = await start([udpRoute("r", [backend])], [backend]);
    const client = await udpSocket();
    const port = gateway.port(9_000, "UDP");
    await ask(client, gateway, "x");
    gateway.clock.advance(1_000);
    const drained = gateway.dataPlane.drain(10_000);
    (await udpSocket()).send("x", port, "127.0.0.1");
    await until(() => gateway.dropped.length > 0);
    expect(gateway.dropped).toEqual(["Drained"]);
    gateway.clock.advance(3_000);
    await drained;
    expect(gateway.records).toMatchObject([{ reason: "Drained" }]);
  });

  test("survives 10,000 clients with its maximum of sessions", async () => {
    const backend = await named("a");
    const streams = { tcpIdleTimeoutMs: 0, udpIdleTimeoutMs: 60_000, maxSessions: 64 };
    const gateway = await start([udpRoute("r", [backend])], [backend], { streams });
    const port = gateway.port(9_000, "UDP");
    let sent = 0;
    for (let batch = 0; batch < 40; batch++) {
      const address = `127.1.${batch}.1`;
      for (let at = 0; at < 250; at++) {
        const client = createSocket("udp4");
        client.bind(0, address);
        client.send("x", port, "127.0.0.1", () => {
          sent++;
          client.close();
        });
      }
      await until(() => sent === (batch + 1) * 250);
      expect(gateway.open.size).toBeLessThanOrEqual(64);
    }
    // An address with fewer sessions still gets one; datagrams of a flood may be lost in the kernel.
    const client = await udpSocket("127.2.0.1");
    let reply = "";
    client.on("message", (datagram) => (reply = datagram.toString()));
    while (reply === "") {
      client.send("y", port, "127.0.0.1");
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(reply).toBe("a y");
  });
});
