import { createSocket } from "node:dgram";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { once } from "node:events";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { afterEach, describe, expect, test } from "vitest";
import { RateLimitStats } from "../stats.ts";
import { CallTimes } from "./call-times.ts";
import { takeStats } from "./stats-snapshot.ts";
import { StatsdSink } from "./statsd-sink.ts";

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** What a statsd server gets, line by line. */
async function server(protocol: "tcp" | "udp"): Promise<{ port: number; lines: string[]; datagrams: number[] }> {
  const lines: string[] = [];
  const datagrams: number[] = [];
  const take = (bytes: Buffer) => {
    datagrams.push(bytes.length);
    lines.push(...bytes.toString().split("\n").filter(Boolean));
  };
  if (protocol === "udp") {
    const socket = createSocket("udp4", take);
    closers.push(() => socket.close());
    socket.bind(0, "127.0.0.1");
    await once(socket, "listening");
    return { port: socket.address().port, lines, datagrams };
  }
  const listening = createServer((socket) => socket.on("data", take));
  closers.push(() => listening.close());
  listening.listen(0, "127.0.0.1");
  await once(listening, "listening");
  return { port: (listening.address() as AddressInfo).port, lines, datagrams };
}

function sink(port: number, protocol: "tcp" | "udp", extraTags = new Map<string, string>()) {
  const stats = new RateLimitStats({ nearLimitRatio: 0.8 });
  const times = new CallTimes();
  const errors: unknown[] = [];
  const clock = new FakeClock();
  const made = new StatsdSink({
    host: "127.0.0.1",
    port,
    protocol,
    flushIntervalMs: 10_000,
    extraTags,
    clock,
    collect: () => Promise.resolve(takeStats(stats, times, 2)),
    onError: (error) => errors.push(error),
  });
  return { stats, times, errors, clock, sink: made };
}

describe.each(["tcp", "udp"] as const)("StatsdSink over %s", (protocol) => {
  test("sends what was added since the last time, under the reference's names", async () => {
    const { port, lines } = await server(protocol);
    const { stats, times, clock } = sink(port, protocol);
    const { counts } = stats.ofRule("rl.path_/a:b|c.ip_10.0.0.7", "rl", ["path_/a:b|c", "ip_10.0.0.7"]);
    counts.totalHits = 5;
    stats.countDomainNotFound("nope");
    stats.service.storeError = 1;
    times.observe(1.5);
    clock.advance(10_000);
    const name = "ratelimit.service.rate_limit.rl.path_/a_b_c.ip_10_0_0_7";
    await expect
      .poll(() => lines)
      .toEqual(
        expect.arrayContaining([
          `${name}.total_hits:5|c`,
          "ratelimit.service.rate_limit.nope.domain_not_found:1|c",
          "ratelimit.service.call.should_rate_limit.redis_error:1|c",
          "ratelimit_server.ShouldRateLimit.total_requests:1|c",
          "ratelimit_server.ShouldRateLimit.response_time:1.500|ms",
          "ratelimit.service.grpc_connections:2|g",
        ]),
      );

    lines.length = 0;
    counts.totalHits = 7;
    clock.advance(10_000);

    await expect.poll(() => lines).toEqual([`${name}.total_hits:2|c`, "ratelimit.service.grpc_connections:2|g"]);
  });

  test("puts extra tags into the names", async () => {
    const { port, lines } = await server(protocol);
    const { stats, sink: made } = sink(
      port,
      protocol,
      new Map([
        ["zone", "a"],
        ["app", "x"],
      ]),
    );
    stats.ofRule("rl.a", "rl", ["a"]).counts.totalHits = 1;
    await made.flush();

    await expect.poll(() => lines).toContain("ratelimit.service.rate_limit.rl.a.total_hits.__app=x.__zone=a:1|c");
  });

  test("sends the rest when it is closed, and nothing after", async () => {
    const { port, lines } = await server(protocol);
    const { stats, clock, sink: made } = sink(port, protocol);
    stats.ofRule("rl.a", "rl", ["a"]).counts.overLimit = 1;
    await made.close();
    await expect.poll(() => lines).toContain("ratelimit.service.rate_limit.rl.a.over_limit:1|c");
    lines.length = 0;
    clock.advance(100_000);

    expect(lines).toEqual([]);
  });
});

test("keeps datagrams within what crosses a network in one piece", async () => {
  const { port, lines, datagrams } = await server("udp");
  const { stats, sink: made } = sink(port, "udp");
  for (let index = 0; index < 200; index++) stats.ofRule(`r${index}`, "rl", [`key${index}`]).counts.totalHits = 1;
  await made.flush();
  await expect.poll(() => lines.length).toBe(201);

  expect(Math.max(...datagrams)).toBeLessThanOrEqual(1_432);
  expect(datagrams.length).toBeLessThan(20);
});

test("loses no count while the server is away", async () => {
  const { port, lines } = await server("tcp");
  await Promise.all(closers.splice(0).map((close) => close()));
  const { stats, sink: made, errors } = sink(port, "tcp");
  stats.ofRule("rl.a", "rl", ["a"]).counts.totalHits = 4;
  await made.flush();
  expect(String(errors[0])).toContain("ECONNREFUSED");

  const back = createServer((socket) => socket.on("data", (bytes) => lines.push(bytes.toString())));
  closers.push(() => back.close());
  back.listen(port, "127.0.0.1");
  await once(back, "listening");
  await made.flush();

  await expect.poll(() => lines.join("")).toContain("ratelimit.service.rate_limit.rl.a.total_hits:4|c\n");
});

describe("sends no hit twice", () => {
  /** Hits that a server got whose connections `serve` treats in its own way. */
  async function received(serve: (socket: Socket, take: (bytes: Buffer) => void) => void) {
    let text = "";
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on("error", () => undefined);
      closers.push(() => socket.destroy());
      serve(socket, (bytes) => (text += bytes.toString()));
    });
    closers.push(() => server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    // A server that listens on TCP has an address with a port.
    const { port } = server.address() as AddressInfo;
    const hits = () => Array.from(text.matchAll(/total_hits:(\d+)\|c/g), ([, hits]) => Number(hits));
    return { port, sum: () => hits().reduce((sum, each) => sum + each, 0) };
  }

  test.each<readonly [string, (socket: Socket, take: (bytes: Buffer) => void) => void]>([
    [
      "resets the connection after reading",
      (socket, take) =>
        socket.on("data", (bytes: Buffer) => {
          take(bytes);
          socket.resetAndDestroy();
        }),
    ],
    ["never closes its side", (socket, take) => socket.on("data", take)],
    [
      "sends bytes that are not read",
      (socket, take) => {
        socket.write("hello");
        socket.on("data", take);
      },
    ],
    ["closes at once after reading", (socket, take) => socket.on("data", take).on("end", () => socket.end())],
  ])("to a server that %s", async (_, serve) => {
    const { port, sum } = await received(serve);
    const { stats, sink: made } = sink(port, "tcp");
    const { counts } = stats.ofRule("rl.a", "rl", ["a"]);
    for (let lot = 1; lot <= 5; lot++) {
      counts.totalHits += 100;
      await made.flush();
      await expect.poll(sum).toBe(lot * 100);
    }
  });

  test("when a lot is sent while the last one still is, as at the end of the process", async () => {
    const { port, sum } = await received((socket, take) => socket.on("data", take));
    const { stats, sink: made } = sink(port, "tcp");
    stats.ofRule("rl.a", "rl", ["a"]).counts.totalHits = 7;
    await Promise.all([made.flush(), made.flush(), made.close()]);

    await expect.poll(sum).toBe(7);
  });
});
