/** TCP listeners, end to end: bytes are relayed both ways, at the pace of the slower side, until both have ended. */
import { once } from "node:events";
import type { Socket } from "node:net";
import { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import { describe, expect, test } from "vitest";
import type { Backend, StreamRoute } from "../../proxy/src/ir/snapshot.ts";
import type { StreamEnd } from "../../proxy/src/telemetry/stream-record.ts";
import { freePort } from "../support/free-port.ts";
import {
  refTo,
  type StreamConfig,
  type StreamGateway,
  openTcp,
  readAll,
  startStreams,
  startTcp,
  streamBackend,
  streamBind,
  streamListener,
  streamRoute,
} from "../support/stream-gateway.ts";

/** Sends back what it gets, and ends when the client ends. */
const echo = (socket: Socket): void => void socket.pipe(socket);

async function startRelay(serve: (socket: Socket) => void = echo) {
  const { port } = await startTcp(serve);
  const backend = streamBackend("a", [port]);
  const gateway = await startStreams({
    binds: [streamBind([streamListener("TCP", [streamRoute("a", [backend])])])],
    backends: [backend],
  });
  return { gateway, backend, port };
}

describe("a TCP listener", () => {
  test("relays bytes both ways, and records the connection at its end", async () => {
    const { gateway, port } = await startRelay();
    const client = await openTcp(gateway.port());
    const text = readAll(client);
    const ended = gateway.ended();
    client.end("hello");
    expect(await text).toBe("hello");
    expect(await ended).toMatchObject([
      {
        protocol: "TCP",
        sourceAddress: "127.0.0.1",
        serverName: undefined,
        listener: "default/web/stream",
        route: "TCPRoute/default/a",
        rule: "TCPRoute/default/a/0",
        backend: "Service/default/a:80 over TCP",
        endpoint: `127.0.0.1:${port}`,
        attempts: 1,
        receivedBytes: 5,
        sentBytes: 5,
        reason: "ClientClosed",
      },
    ]);
    expect(gateway.counted).toEqual({ received: 5, sent: 5 });
    expect(gateway.open.size).toBe(0);
  });

  test("passes on the end of the client while the backend still sends", async () => {
    const { gateway } = await startRelay((socket) => {
      socket.resume().once("end", () => {
        socket.write("after ");
        setImmediate(() => socket.end("the end"));
      });
    });
    const client = await openTcp(gateway.port());
    client.end("question");
    expect(await readAll(client)).toBe("after the end");
  });

  test("passes on the end of the backend while the client still sends", async () => {
    const received = Promise.withResolvers<string>();
    const { gateway } = await startRelay((socket) => {
      readAll(socket).then(received.resolve, received.reject);
      socket.end("welcome");
    });
    const client = await openTcp(gateway.port());
    const ended = gateway.ended();
    expect(await readAll(client)).toBe("welcome");
    client.end("reply");
    expect(await received.promise).toBe("reply");
    expect(await ended).toMatchObject([{ reason: "BackendClosed", receivedBytes: 5, sentBytes: 7 }]);
  });

  test("relays what the client has sent before the backend is connected, and its end", async () => {
    const { gateway } = await startRelay();
    const client = await openTcp(gateway.port());
    const sent = "x".repeat(300_000);
    client.end(sent);
    expect(await readAll(client)).toBe(sent);
  });

  test("resets the client if the backend resets its connection, so that a part is not taken for the whole", async () => {
    const { gateway } = await startRelay((socket) => {
      socket.write("part", () => setImmediate(() => socket.resetAndDestroy()));
    });
    const client = await openTcp(gateway.port());
    const ended = gateway.ended();
    await expect(readAll(client)).rejects.toThrow("ECONNRESET");
    expect(await ended).toMatchObject([{ reason: "BackendReset", sentBytes: 4 }]);
  });

  test("resets the backend if the client resets its connection", async () => {
    const outcome = Promise.withResolvers<unknown>();
    const { gateway } = await startRelay((socket) => {
      readAll(socket).then(outcome.resolve, outcome.resolve);
      socket.write("ready");
    });
    const client = await openTcp(gateway.port());
    await once(client, "data");
    const ended = gateway.ended();
    client.resetAndDestroy();
    expect(String(await outcome.promise)).toContain("ECONNRESET");
    expect(await ended).toMatchObject([{ reason: "ClientReset" }]);
  });

  test.each(["client", "backend"] as const)(
    "reads no more than the other side takes, if the %s does not read",
    async (slow) => {
      const held = Promise.withResolvers<Socket>();
      const { gateway } = await startRelay((socket) => held.resolve(socket));
      const client = await openTcp(gateway.port());
      const backend = await held.promise;
      const [from, to] = slow === "backend" ? [client, backend] : [backend, client];
      const total = 256 * mib;
      const chunk = Buffer.alloc(mib);
      for (let sent = 0; sent < total; sent += chunk.length) from.write(chunk);
      // Until the kernel takes no more: its buffers are full on both sides of the proxy.
      const taken = await settled(() => total - from.writableLength);
      expect(taken).toBeLessThan(64 * mib);
      from.end();
      let got = 0;
      for await (const part of to) got += (part as Buffer).length;
      expect(got).toBe(total);
      to.end();
    },
  );
});

/** A backend whose server says its name and then echoes. */
async function named(name: string, options: Partial<Backend> = {}) {
  const { port } = await startTcp((socket) => {
    socket.write(name);
    echo(socket);
  });
  return streamBackend(name, [port], options);
}

function bindOf(...routes: readonly StreamRoute[]) {
  return streamBind([streamListener("TCP", routes)]);
}

/** The first text that comes. */
async function firstText(client: Socket): Promise<string> {
  const [text] = (await once(client, "data")) as [Buffer];
  return text.toString();
}

async function outcomeOf(port: number): Promise<unknown> {
  return await openTcp(port)
    .then(readAll)
    .catch((error: unknown) => (error as { readonly code?: string }).code);
}

describe("the backend of a connection", () => {
  test("is chosen by weight", async () => {
    const [a, b] = [await named("a"), await named("b")];
    const gateway = await startStreams({
      binds: [bindOf(streamRoute("r", [refTo(a, 3), refTo(b, 1)]))],
      backends: [a, b],
    });
    const names: string[] = [];
    for (let at = 0; at < 8; at++) names.push(await firstText(await openTcp(gateway.port())));
    expect(names.filter((name) => name === "a")).toHaveLength(6);
  });

  test("is that of the first route", async () => {
    const [a, b] = [await named("a"), await named("b")];
    const gateway = await startStreams({
      binds: [bindOf(streamRoute("r", [a]), streamRoute("s", [b]))],
      backends: [a, b],
    });
    expect(await firstText(await openTcp(gateway.port()))).toBe("a");
  });

  test("is another endpoint if the first one cannot be reached, and nothing of the client is lost", async () => {
    const { port } = await startTcp(echo);
    const a = streamBackend("a", [await freePort(), port]);
    const gateway = await startStreams({ binds: [bindOf(streamRoute("r", [a]))], backends: [a] });
    const client = await openTcp(gateway.port());
    const ended = gateway.ended();
    client.end("hello");
    expect(await readAll(client)).toBe("hello");
    expect(await ended).toMatchObject([{ attempts: 2, endpoint: `127.0.0.1:${port}`, reason: "ClientClosed" }]);
  });

  test("that cannot be reached five times is ejected, and others are chosen first", async () => {
    const { port } = await startTcp(echo);
    const dead = await freePort();
    const a = streamBackend("a", [dead, port]);
    const gateway = await startStreams({ binds: [bindOf(streamRoute("r", [a]))], backends: [a] });
    const connectOnce = async (): Promise<void> => {
      const client = await openTcp(gateway.port());
      client.end("x");
      await readAll(client);
    };
    for (let at = 0; at < 5; at++) {
      // Older failures say nothing, so that the endpoint is tried again.
      gateway.clock.advance(11_000);
      await connectOnce();
    }
    await connectOnce();
    const states = gateway.dataPlane.endpoints();
    expect(states.find(({ address }) => address.endsWith(`:${dead}`))).toMatchObject({ timesEjected: 1 });
    expect(gateway.records.at(-1)).toMatchObject({ attempts: 1 });
  });

  test.each<[string, (dead: number) => readonly [readonly Backend[], StreamRoute[]], StreamEnd]>([
    ["no route", () => [[], []], "RouteNotFound"],
    ["a route without backends", () => [[], [streamRoute("r", [])]], "InvalidBackend"],
    [
      "an invalid backend",
      () => [[], [streamRoute("r", [{ kind: "invalid", weight: 1, reason: "none" }])]],
      "InvalidBackend",
    ],
    ["a backend without endpoints", () => withBackend(streamBackend("a", [])), "NoReadyEndpoint"],
    ["an endpoint that cannot be reached", (dead) => withBackend(streamBackend("a", [dead])), "UpstreamConnectFailure"],
    [
      "a policy that cannot be read",
      () => [[], [streamRoute("r", [], { refusedPolicies: ["default/p"] })]],
      "PolicyRefused",
    ],
  ])("is missing with %s: the connection is reset", async (_, config, reason) => {
    const [backends, routes] = config(await freePort());
    const gateway = await startStreams({ binds: [bindOf(...routes)], backends });
    const ended = gateway.ended();
    expect(await outcomeOf(gateway.port())).toBe("ECONNRESET");
    expect(await ended).toMatchObject([{ reason }]);
  });

  test("is not one at which the proxy serves its operator", async () => {
    const { port } = await startTcp(echo);
    const a = streamBackend("a", [port]);
    const addresses = new AddressGuard({ own: [{ host: "127.0.0.1", port }], deniesSpecial: false, allowed: [] });
    const gateway = await startStreams({ binds: [bindOf(streamRoute("r", [a]))], backends: [a] }, { addresses });
    const ended = gateway.ended();
    expect(await outcomeOf(gateway.port())).toBe("ECONNRESET");
    expect(await ended).toMatchObject([{ reason: "ForbiddenAddress" }]);
  });

  test("is called by TLS if it has TLS", async () => {
    const { port } = await startTcp((socket) => socket.once("data", (hello: Buffer) => socket.end(hello)));
    const a = streamBackend("a", [port], { tls: { hostname: "a.example" } });
    const gateway = await startStreams({ binds: [bindOf(streamRoute("r", [a]))], backends: [a] });
    const ended = gateway.ended();
    // It returns no ServerHello, so that the handshake with the backend fails.
    expect(await outcomeOf(gateway.port())).toBe("ECONNRESET");
    expect(await ended).toMatchObject([{ reason: "UpstreamConnectFailure" }]);
  });
});

function withBackend(backend: Backend): readonly [readonly Backend[], StreamRoute[]] {
  return [[backend], [streamRoute("r", [backend])]];
}

describe("an open connection", () => {
  async function openOn(gateway: StreamGateway, port?: number): Promise<Socket> {
    const client = await openTcp(gateway.port(port));
    await firstText(client);
    return client;
  }

  async function stillEchoes(client: Socket): Promise<boolean> {
    client.write("more");
    return (await firstText(client)) === "more";
  }

  test("stays open while other routes and the weights of its own route change", async () => {
    const [a, b, c] = [await named("a"), await named("b"), await named("c")];
    const other = (route: StreamRoute) => ({ ...bindOf(route), port: 9_001 });
    const gateway = await startStreams({
      binds: [bindOf(streamRoute("r", [a])), other(streamRoute("o", [b]))],
      backends: [a, b],
    });
    const client = await openOn(gateway);
    await gateway.apply({
      binds: [bindOf(streamRoute("r", [refTo(a, 1), refTo(c, 9)])), other(streamRoute("p", [c]))],
      backends: [a, c],
    });
    expect(await stillEchoes(client)).toBe(true);
    await gateway.apply({ binds: [bindOf(streamRoute("r", [refTo(a, 0), c]))], backends: [a, c] });
    expect(await stillEchoes(client)).toBe(true);
  });

  test.each<[string, (a: Backend, b: Backend) => StreamConfig]>([
    ["its listener", () => ({ binds: [], backends: [] })],
    ["its route", (_, b) => ({ binds: [bindOf(streamRoute("other", [b]))], backends: [b] })],
    ["the reference to its backend", (_, b) => ({ binds: [bindOf(streamRoute("r", [b]))], backends: [b] })],
    [
      "the permission to refer to its backend",
      () => ({ binds: [bindOf(streamRoute("r", [{ kind: "invalid", weight: 1, reason: "none" }]))], backends: [] }),
    ],
  ])("is closed without %s", async (_, next) => {
    const [a, b] = [await named("a"), await named("b")];
    const gateway = await startStreams({ binds: [bindOf(streamRoute("r", [a]))], backends: [a] });
    const client = await openOn(gateway);
    const ended = gateway.ended();
    // The end is not that of the stream, so it is none.
    const closed = expect(readAll(client)).rejects.toThrow("ECONNRESET");
    await gateway.apply(next(a, b));
    await closed;
    expect((await ended)[0]?.reason).toBe("RouteChanged");
  });

  test("is closed after its idle timeout, and bytes in either direction start it again", async () => {
    const a = await named("a");
    const gateway = await startStreams({ binds: [bindOf(streamRoute("r", [a]))], backends: [a] });
    const client = await openOn(gateway);
    gateway.clock.advance(3_599_000);
    expect(await stillEchoes(client)).toBe(true);
    gateway.clock.advance(3_599_000);
    expect(gateway.open.size).toBe(1);
    const ended = gateway.ended();
    gateway.clock.advance(2_000);
    await once(client.resume(), "end");
    expect(await ended).toMatchObject([{ reason: "IdleTimeout" }]);
  });

  test("is counted while it is open", async () => {
    const a = await named("a");
    const gateway = await startStreams({ binds: [bindOf(streamRoute("r", [a]))], backends: [a] });
    const client = await openOn(gateway);
    expect(await stillEchoes(client)).toBe(true);
    gateway.clock.advance(1_000);
    expect(gateway.counted).toEqual({ received: 4, sent: 5 });
  });

  test("is closed for an address with fewer if connections exceed their memory, its newest first", async () => {
    const a = await named("a");
    // 3 units of 16 KiB for each relayed connection.
    const clientMemory = { connectionBytes: 6 * 16 * 1024, requestBytes: 1024 * 1024 };
    const gateway = await startStreams({ binds: [bindOf(streamRoute("r", [a]))], backends: [a] }, { clientMemory });
    await openOn(gateway);
    await openOn(gateway);
    expect(await outcomeOf(gateway.port())).toBe("");
    expect(gateway.shed).toEqual(["newest"]);
    expect(gateway.open.size).toBe(2);
  });
});

test("a drained gateway accepts no connections, and closes the open ones at the end of its time", async () => {
  const a = await named("a");
  const gateway = await startStreams({ binds: [bindOf(streamRoute("r", [a]))], backends: [a] });
  const port = gateway.port();
  const client = await openTcp(port);
  await firstText(client);
  const drained = gateway.dataPlane.drain(5_000);
  await expect(openTcp(port)).rejects.toThrow("ECONNREFUSED");
  client.write("more");
  expect(await firstText(client)).toBe("more");
  gateway.clock.advance(5_000);
  await drained;
  // Afterwards the worker ends, and with it the access log.
  expect(gateway.records).toMatchObject([{ reason: "Drained" }]);
});

test("the address of a PROXY protocol header is that of the client", async () => {
  const a = await named("a");
  const gateway = await startStreams(
    { binds: [bindOf(streamRoute("r", [a]))], backends: [a] },
    { expectsProxyHeader: true },
  );
  const client = await openTcp(gateway.port());
  const ended = gateway.ended();
  client.end("PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\nhello");
  expect(await readAll(client)).toBe("ahello");
  expect(await ended).toMatchObject([{ sourceAddress: "192.0.2.1", receivedBytes: 5 }]);
});

const mib = 1024 * 1024;

/** Resolves with a value when it has been the same 20 times in a row. */
async function settled(read: () => number): Promise<number> {
  let last = read();
  for (let same = 0; same < 20; same++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    if (read() !== last) same = 0;
    last = read();
  }
  return last;
}
