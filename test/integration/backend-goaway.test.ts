/**
 * HTTP/2 endpoints that send GOAWAY or REFUSED_STREAM: accepted streams are finished, all others are sent elsewhere,
 * once.
 */
import { constants, createServer, type ServerHttp2Session, type ServerHttp2Stream, type Settings } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { AddressGuard, unrestricted } from "@gatewayproxy/runtime/address-rules";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { expect, onTestFinished, test } from "vitest";
import { ConnectionSweeper } from "../../proxy/src/upstream/connection-sweeper.ts";
import { BackendLoad } from "../../proxy/src/upstream/backend-load.ts";
import { EndpointSockets } from "../../proxy/src/upstream/endpoint-sockets.ts";
import { EndpointPool } from "../../proxy/src/upstream/endpoint-pool.ts";
import type { UpstreamFailure } from "../../proxy/src/upstream/failure.ts";
import { startHttp2Gateway } from "../support/http2-gateway.ts";

/** A request as the endpoint received it. */
interface Arrival {
  readonly path: string;
  readonly stream: ServerHttp2Stream;
  /** The index of the endpoint's connection, from 0. */
  readonly connection: number;
}

/** @param onArrival may respond, reset the stream, or send GOAWAY. */
async function startEndpoint(onArrival: (arrival: Arrival) => void, settings: Settings = {}) {
  const arrivals: Arrival[] = [];
  const sessions: ServerHttp2Session[] = [];
  const sockets: Socket[] = [];
  const server = createServer({ settings });
  server.on("connection", (socket) => sockets.push(socket));
  server.on("session", (session) => {
    sessions.push(session);
    session.on("error", () => undefined);
  });
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    stream.on("error", () => undefined);
    const connection = sessions.findIndex((session) => session === stream.session);
    const arrival = { path: headers[":path"] ?? "", stream, connection };
    arrivals.push(arrival);
    onArrival(arrival);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    for (const session of sessions) session.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  // A listening TCP server has such an address.
  const { port } = server.address() as AddressInfo;
  const gateway = await startHttp2Gateway([port]);
  return { port, gateway, sockets, arrivals, paths: () => arrivals.map(({ path }) => path) };
}

/** Sends GOAWAY: the endpoint has accepted the streams up to `last` and accepts no others. */
function sendGoaway({ stream }: Arrival, last: number): void {
  stream.session?.goaway(constants.NGHTTP2_NO_ERROR, last);
}

function respond({ stream, path }: Arrival): void {
  if (!stream.headersSent) stream.respond({ ":status": 200 });
  stream.end(path);
}

const post = (url: string, body: RequestInit["body"] = "body") =>
  fetch(url, { method: "POST", body: body ?? null, duplex: "half" });

function streamed(text: string): ReadableStream {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from(text));
      controller.close();
    },
  });
}

test.each([
  ["of known length", () => "body"],
  ["of unknown length", () => streamed("body")],
])("a stream that it has not accepted is sent on another connection, with a body %s", async (_what, body) => {
  const { gateway, paths } = await startEndpoint((arrival) => {
    if (arrival.path === "/second" && arrival.connection === 0) sendGoaway(arrival, 1);
    else if (arrival.path === "/second") respond(arrival);
  });
  const first = post(`${gateway.url()}/first`).catch(() => undefined);
  await expect.poll(paths).toEqual(["/first"]);
  const second = await post(`${gateway.url()}/second`, body());
  expect([second.status, await second.text()]).toEqual([200, "/second"]);
  gateway.dataPlane.destroy();
  await first;
  expect(paths()).toEqual(["/first", "/second", "/second"]);
});

test.each([
  ["before", false],
  ["within", true],
])(
  "a stream that it has accepted is finished, %s its response, even if the next connection breaks",
  async (_when, begins) => {
    const { gateway, arrivals, paths, sockets } = await startEndpoint((arrival) => {
      if (arrival.path === "/first" && begins) arrival.stream.respond({ ":status": 200 });
      if (arrival.path === "/second" && arrival.connection === 0) sendGoaway(arrival, 1);
      else if (arrival.path === "/second") sockets[1]?.resetAndDestroy();
    });
    const first = post(`${gateway.url()}/first`);
    await expect.poll(paths).toEqual(["/first"]);
    expect((await post(`${gateway.url()}/second`)).status).toBe(502);
    const third = post(`${gateway.url()}/third`);
    await expect.poll(() => paths().at(-1)).toBe("/third");
    for (const arrival of arrivals) if (arrival.path !== "/second") respond(arrival);
    expect([await (await first).text(), await (await third).text()]).toEqual(["/first", "/third"]);
    expect(paths()).toEqual(["/first", "/second", "/second", "/third"]);
  },
);

test("a stream that it has accepted is finished, even if the next connection gets GOAWAY too", async () => {
  const { gateway, arrivals, paths } = await startEndpoint((arrival) => {
    if (arrival.path === "/other") respond(arrival);
    if (arrival.path === "/second" && arrival.connection === 0) sendGoaway(arrival, 3);
    if (arrival.path !== "/second" || arrival.connection === 0) return;
    respond(arrival);
    sendGoaway(arrival, 1);
  });
  await post(`${gateway.url()}/other`);
  const first = post(`${gateway.url()}/first`);
  await expect.poll(paths).toEqual(["/other", "/first"]);
  expect((await post(`${gateway.url()}/second`)).status).toBe(200);
  expect((await post(`${gateway.url()}/other`)).status).toBe(200);
  for (const arrival of arrivals) if (arrival.path === "/first") respond(arrival);
  expect((await first).status).toBe(200);
  expect(paths()).toEqual(["/other", "/first", "/second", "/second", "/other"]);
});

/** As at a restart: the gateway has read the end of one connection, and not yet those of the others. */
test("a stream that it has not accepted is sent on a new connection, since it may end all that it has", async () => {
  const old = 5;
  const { gateway, arrivals } = await startEndpoint(
    (arrival) => {
      if (arrival.path !== "/last") return;
      if (arrival.connection < old) sendGoaway(arrival, 1);
      else respond(arrival);
    },
    { maxConcurrentStreams: 1 },
  );
  const held: Promise<Response>[] = [];
  for (let count = 1; count <= old; count++) {
    held.push(post(`${gateway.url()}/held`));
    await expect.poll(() => arrivals.length).toBe(count);
  }
  for (const arrival of arrivals) respond(arrival);
  expect((await Promise.all(held)).map(({ status }) => status)).toEqual(held.map(() => 200));
  expect(arrivals.map(({ connection }) => connection)).toEqual([0, 1, 2, 3, 4]);
  expect((await post(`${gateway.url()}/last`)).status).toBe(200);
  expect(arrivals.at(-1)?.connection).toBe(old);
});

test("a shutdown of the proxy ends the attempts on both connections", async () => {
  const { port, paths, arrivals } = await startEndpoint((arrival) => {
    if (arrival.path === "/second" && arrival.connection === 0) sendGoaway(arrival, 1);
  });
  const clock = new FakeClock();
  const owner = { load: new BackendLoad({ waiting: 0 }), onFailed: () => undefined };
  const endpoint = { host: "127.0.0.1", port, name: "e" };
  const timeouts = { connectTimeoutMs: 5_000, idleTimeoutMs: 5_000, maxWaitMs: 5_000, maxConnections: 8 };
  const pool = new EndpointPool({ endpoint, protocol: "h2" }, owner, {
    ...timeouts,
    clock,
    sweeper: new ConnectionSweeper(clock),
    addresses: new AddressGuard(unrestricted),
    sockets: new EndpointSockets(),
  });
  const send = (path: string) =>
    new Promise<string>((resolve) => {
      const sink = {
        onHead: () => undefined,
        onData: () => undefined,
        onEnd: () => resolve("responded"),
        onFailure: ({ kind }: UpstreamFailure) => (kind === "unprocessed" ? resolve(send(path)) : resolve(kind)),
        onFault: (error: unknown) => resolve(String(error)),
      };
      pool.send({ method: "POST", path, fields: ["host", "svc"], body: Buffer.from("body"), upgrade: undefined }, sink);
    });
  const first = send("/first");
  await expect.poll(paths).toEqual(["/first"]);
  const second = send("/second");
  await expect.poll(() => arrivals.at(-1)?.connection).toBe(1);
  pool.destroy();
  expect([await first, await second]).toEqual(["reset", "reset"]);
  expect(paths()).toEqual(["/first", "/second", "/second"]);
  expect(pool.inFlight).toBe(0);
});

test("a stream that it resets with REFUSED_STREAM is opened once more, whatever the method", async () => {
  const { gateway, paths, arrivals } = await startEndpoint((arrival) => {
    if (arrivals.length === 1) arrival.stream.close(constants.NGHTTP2_REFUSED_STREAM);
    else respond(arrival);
  });
  expect((await post(gateway.url())).status).toBe(200);
  expect(paths()).toEqual(["/", "/"]);
});
