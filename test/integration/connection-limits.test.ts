/** Limits of connections: each open one has a place, and every way in which it can end frees the place. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { Socket } from "node:net";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, onTestFinished, test } from "vitest";
import { localLimitsOf } from "../../proxy/src/admin/snapshot-limits.ts";
import type { LocalLimit } from "../../proxy/src/ir/limit.ts";
import { CounterTable, createCounters } from "../../proxy/src/policy/ratelimit/counter-table.ts";
import {
  connectionLimit,
  openTcp,
  readAll,
  startStreams,
  startTcp,
  type StreamGateway,
  type StreamGatewayOptions,
  streamBackend,
  streamBind,
  streamListener,
  streamRoute,
} from "../support/stream-gateway.ts";

interface Served {
  readonly gateway: StreamGateway;
  readonly held: () => Promise<Socket>;
}

async function serve(limits: readonly LocalLimit[], options: StreamGatewayOptions = {}): Promise<Served> {
  const accepted: Socket[] = [];
  const { port } = await startTcp((socket) => {
    accepted.push(socket);
    socket.write("ready");
  });
  const backend = streamBackend("a", [port]);
  const route = streamRoute("a", [backend], { limits });
  const gateway = await startStreams(
    { binds: [streamBind([streamListener("TCP", [route])])], backends: [backend] },
    options,
  );
  const held = (): Promise<Socket> => Promise.resolve(accepted.at(-1) as Socket);
  return { gateway, held };
}

/** Resolves when the backend has greeted, or with the code of the error. */
async function outcomeOf(gateway: StreamGateway, first = ""): Promise<unknown> {
  const codeOf = (error: unknown): unknown => (error as { readonly code?: string }).code;
  // The reset may be seen before the connection.
  const client = await openTcp(gateway.port()).catch(codeOf);
  if (!(client instanceof Socket)) return client;
  client.write(first);
  return await new Promise((resolve) => {
    client.once("data", () => resolve("ready"));
    client.once("error", (error) => resolve(codeOf(error)));
  });
}

async function open({ gateway }: Served): Promise<Socket> {
  const client = await openTcp(gateway.port());
  await once(client, "data");
  return client;
}

const ends: Readonly<Record<string, (client: Socket, served: Served) => unknown>> = {
  "the end of both sides": async (client, { held }) => {
    client.end();
    (await held()).end();
  },
  "a client that resets it": (client) => client.resetAndDestroy(),
  "a backend that resets it": async (_client, { held }) => (await held()).resetAndDestroy(),
  "its idle timeout": (_client, { gateway }) => {
    gateway.clock.advance(3_602_000);
  },
};

test.each(Object.entries(ends))("%s frees the place of a connection", async (_, end) => {
  const served = await serve([connectionLimit(1)]);
  const client = await open(served);
  expect(await outcomeOf(served.gateway)).toBe("ECONNRESET");
  expect(served.gateway.records).toMatchObject([{ reason: "RateLimited", decisions: [{ outcome: "denied" }] }]);
  const ended = served.gateway.ended();
  await end(client, served);
  await ended;
  expect(await outcomeOf(served.gateway)).toBe("ready");
});

test("a connection that cannot be connected frees its place", async () => {
  const backend = streamBackend("a", []);
  const route = streamRoute("a", [backend], { limits: [connectionLimit(1)] });
  const gateway = await startStreams({ binds: [streamBind([streamListener("TCP", [route])])], backends: [backend] });
  for (let at = 0; at < 3; at++) {
    const ended = gateway.ended();
    await openTcp(gateway.port())
      .then(readAll)
      .catch(() => undefined);
    expect(await ended).toMatchObject([{ reason: "NoReadyEndpoint" }]);
  }
});

test("each key has its own places", async () => {
  const served = await serve([connectionLimit(1, { key: "source.address" })], { expectsProxyHeader: true });
  const connectFrom = (address: string): Promise<unknown> =>
    outcomeOf(served.gateway, `PROXY TCP4 ${address} 192.0.2.99 1 2\r\n`);
  expect(await connectFrom("192.0.2.1")).toBe("ready");
  expect(await connectFrom("192.0.2.2")).toBe("ready");
  expect(await connectFrom("192.0.2.1")).toBe("ECONNRESET");
});

test.each([
  ["key", { key: 'request.headers["x-tenant"]' }],
  ["key", { key: "request.host" }],
  ["condition", { when: 'request.method == "GET"' }],
  ["condition", { when: '"x-tenant" in request.headers' }],
  ["condition", { when: 'jwt.sub == "alice"' }],
])("a %s that reads a request neither splits nor exempts: %j", async (_, fields) => {
  const served = await serve([connectionLimit(1, fields)]);
  await open(served);
  expect(await outcomeOf(served.gateway)).toBe("ECONNRESET");
});

test("mode Shadow denies nothing, and reports what it would deny", async () => {
  const served = await serve([connectionLimit(1, { mode: "Shadow" })]);
  await open(served);
  await open(served);
  const ended = served.gateway.ended(2);
  served.gateway.dataPlane.destroy();
  const outcomes = (await ended).map(({ decisions }) => decisions[0]?.outcome).toSorted();
  expect(outcomes).toEqual(["allowed", "shadowDenied"]);
});

test("the places of all workers are shared, and those of a worker that has ended are free", async () => {
  const memory = createCounters(1_024, 2);
  const clock = new FakeClock();
  const limit = connectionLimit(2);
  const one = await serve([limit], { counters: new CounterTable(memory, 1, clock), worker: 1 });
  const two = await serve([limit], { counters: new CounterTable(memory, 2, clock), worker: 2 });
  await open(one);
  await open(two);
  expect(await outcomeOf(one.gateway)).toBe("ECONNRESET");
  expect(await outcomeOf(two.gateway)).toBe("ECONNRESET");
  new CounterTable(memory, 9, clock).releaseUnitsOf(1);
  expect(await outcomeOf(two.gateway)).toBe("ready");
});

test("sessions have places, and their end frees them", async () => {
  const server = createSocket("udp4").bind(0, "127.0.0.1");
  await once(server, "listening");
  server.on("message", (datagram, { port, address }) => server.send(datagram, port, address));
  onTestFinished(() => void server.close());
  const backend = streamBackend("a", [server.address().port], { protocol: "udp" });
  const route = streamRoute("a", [backend], { kind: "UDPRoute", limits: [connectionLimit(1)] });
  const gateway = await startStreams({ binds: [streamBind([streamListener("UDP", [route])])], backends: [backend] });
  const ask = async (): Promise<void> => {
    const client = createSocket("udp4");
    onTestFinished(() => void client.close());
    client.send("x", gateway.port(9_000, "UDP"), "127.0.0.1");
    const reply = once(client, "message");
    while (gateway.dropped.length === 0 && !(await Promise.race([reply.then(() => true), turn()])));
  };
  await ask();
  expect(gateway.dropped).toEqual([]);
  await ask();
  expect(gateway.dropped).toEqual(["RateLimited"]);
  expect(gateway.records).toMatchObject([{ reason: "RateLimited" }]);
  const ended = gateway.ended();
  gateway.clock.advance(62_000);
  await ended;
  gateway.dropped.splice(0);
  await ask();
  expect(gateway.dropped).toEqual([]);
  expect(gateway.open.size).toBe(1);
});

test("a flood of datagrams that a limit denies is counted, and recorded only up to a bound", async () => {
  const [server, first, client] = [createSocket("udp4"), createSocket("udp4"), createSocket("udp4")];
  for (const socket of [server, first, client]) {
    socket.bind(0, "127.0.0.1");
    await once(socket, "listening");
    onTestFinished(() => void socket.close());
  }
  const backend = streamBackend("a", [server.address().port], { protocol: "udp" });
  const route = streamRoute("a", [backend], { kind: "UDPRoute", limits: [connectionLimit(1)] });
  const gateway = await startStreams({ binds: [streamBind([streamListener("UDP", [route])])], backends: [backend] });
  first.send("x", gateway.port(9_000, "UDP"), "127.0.0.1");
  await once(server, "message");
  const flood = async (total: number): Promise<void> => {
    while (gateway.dropped.length < total) {
      client.send("x", gateway.port(9_000, "UDP"), "127.0.0.1");
      await turn();
    }
  };
  await flood(150);
  expect(gateway.records).toHaveLength(100);
  gateway.clock.advance(1_000);
  await flood(300);
  expect(gateway.records).toHaveLength(200);
  expect(gateway.open.size).toBe(1);
  expect(new Set(gateway.dropped)).toEqual(new Set(["RateLimited"]));
});

function turn(): Promise<false> {
  return new Promise((resolve) => setImmediate(() => resolve(false)));
}

test("the limits of stream routes are among those that operators see", () => {
  const limit = connectionLimit(1);
  const bind = streamBind([streamListener("TCP", [streamRoute("a", [], { limits: [limit] })])]);
  expect(localLimitsOf({ binds: [bind] })).toEqual([limit]);
});
