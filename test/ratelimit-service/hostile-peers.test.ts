/**
 * Stores and xDS servers that send endless or malformed responses: the memory of the service is bounded, the log has
 * the reason, and the service recovers.
 */
import { readFileSync } from "node:fs";
import { createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { startMemcached } from "../support/memcached-server.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { type Environment, startRateLimitService } from "../support/ratelimit-process.ts";
import { type EndlessResponse, type HostileRelay, startHostileRelay } from "../support/hostile-relay.ts";
import { type RedisServer, startRedis } from "../support/redis-server.ts";

const limits = "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, requests_per_unit: 1000}\n";
const mebibyte = 1_048_576;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "hostile-stores-"));
  await writeFile(join(folder, "limits.yaml"), limits);
});
afterAll(() => rm(folder, { recursive: true }));

async function redisServer(binary: string, options: readonly string[] = [], config?: string): Promise<RedisServer> {
  const redis = await startRedis(binary, options, config);
  onTestFinished(() => redis.close());
  return redis;
}

/** A service whose Redis is behind the relay, before its first connection to it. */
async function start(env: Environment) {
  const service = await startRateLimitService(folder, { REDIS_TIMEOUT: "300ms", ...env });
  onTestFinished(() => service.kill());
  const client = connectRateLimit(service.grpcPort);
  onTestFinished(() => client.close());
  const ask = () => client.outcome({ domain: "d", descriptors: [descriptor("k=v")] });
  /** The largest memory of the process so far. */
  const peakBytes = (): number => {
    const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${service.child.pid}/status`, "utf8")) ?? [];
    return Number(kibibytes) * 1_024;
  };
  const failures = () => service.output.filter((line) => line.includes('"msg":"store fails"')).join("\n");
  const stats = async () => (await fetch(`${service.debug}/stats`)).text();
  return { ...service, client, ask, peakBytes, failures, stats };
}

/** Topologies: each returns the relay and the settings of a service that connects through it. */
type Topology = (
  binary: string,
  openssl: string,
) => Promise<{ readonly relay: HostileRelay; readonly env: Environment }>;

const single: Topology = async (binary) => {
  const redis = await redisServer(binary);
  const relay = await startHostileRelay(() => redis.port);
  return { relay, env: { REDIS_URL: `127.0.0.1:${relay.port}` } };
};

const overTls: Topology = async (binary, openssl) => {
  const redis = await redisServer(binary);
  const authority = new TestAuthority(openssl, folder, "authority");
  const relay = await startHostileRelay(() => redis.port, authority.issue("redis", "IP:127.0.0.1"));
  const tls = { REDIS_TLS: "true", REDIS_TLS_CACERT: authority.authority.certFile };
  return { relay, env: { REDIS_URL: `127.0.0.1:${relay.port}`, ...tls } };
};

async function sentinels(binary: string, masterPort: (real: number) => Promise<number>) {
  const master = await redisServer(binary);
  const config = join(folder, `sentinel-${master.port}.conf`);
  const monitored = await masterPort(master.port);
  await writeFile(
    config,
    `sentinel monitor main 127.0.0.1 ${monitored} 1\nsentinel down-after-milliseconds main 60000\n`,
  );
  return redisServer(binary, ["--sentinel"], config);
}

const masterOfSentinels: Topology = async (binary) => {
  let relay: HostileRelay | undefined;
  const sentinel = await sentinels(binary, async (real) => {
    relay = await startHostileRelay(() => real);
    return relay.port;
  });
  if (relay === undefined) throw new Error("the sentinel has no master");
  return { relay, env: { REDIS_TYPE: "SENTINEL", REDIS_URL: `main,127.0.0.1:${sentinel.port}` } };
};

const sentinelItself: Topology = async (binary) => {
  const sentinel = await sentinels(binary, (real) => Promise.resolve(real));
  const relay = await startHostileRelay(() => sentinel.port);
  return { relay, env: { REDIS_TYPE: "SENTINEL", REDIS_URL: `main,127.0.0.1:${relay.port}` } };
};

const cluster: Topology = async (binary) => {
  let port = 0;
  const relay = await startHostileRelay(() => port);
  const announced = ["--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", String(relay.port)];
  const node = await redisServer(binary, ["--cluster-enabled", "yes", ...announced]);
  port = node.port;
  await node.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
  await expect.poll(async () => String(await node.command("CLUSTER", "INFO"))).toContain("cluster_state:ok");
  return { relay, env: { REDIS_TYPE: "CLUSTER", REDIS_URL: `127.0.0.1:${relay.port}` } };
};

const endlessLine: EndlessResponse = { beginning: "+", piece: "x" };

/** By what is wrong: what the server sends in place of replies, and the reason in the log. */
const hostileReplies: readonly (readonly [string, EndlessResponse, string])[] = [
  ["a line", { beginning: "+", piece: "x" }, "more than 16777216 bytes"],
  ["a string", { beginning: "$16777216\r\n", piece: "x" }, "more than 16777216 bytes"],
  ["a string of a length beyond the bound", { beginning: "$999999999999\r\n", piece: "x" }, "more than 16777216 bytes"],
  ["an array", { beginning: "*1000000000\r\n", piece: ":1\r\n" }, "more than 1048576 elements"],
  ["long elements", { beginning: "*1048576\r\n", piece: `+${"x".repeat(1_000)}\r\n` }, "more than 16777216 bytes"],
  // The client library allocates 240 MiB for each.
  ["nested arrays", { beginning: "*32000000\r\n".repeat(100) }, "more than 1048576 elements"],
  ["arrays in arrays", { beginning: "*1\r\n".repeat(100_000) }, "more than 16 nested arrays"],
  ["replies", { beginning: "", piece: ":1\r\n" }, "more replies than it got commands"],
  ["garbage", { beginning: "HTTP/1.1 400 Bad Request\r\n\r\n", piece: "x" }, "unknown type"],
];

describeWith(["redis-server", "openssl"], "a Redis whose reply does not end", (paths) => {
  const binary = paths["redis-server"];

  async function expectContained(
    { relay, env }: Awaited<ReturnType<Topology>>,
    reply: EndlessResponse,
    reason: string,
  ): Promise<void> {
    const { ask, client, child, peakBytes, failures, stats } = await start(env);
    await expect.poll(ask, { timeout: 10_000 }).toMatchObject({ overallCode: "OK" });
    const before = peakBytes();

    relay.become(reply);
    await expect.poll(ask).toMatchObject({ code: 2, details: expect.stringContaining("redis") as string });
    await expect.poll(failures, { timeout: 20_000 }).toMatch(new RegExp(reason));
    await expect.poll(() => relay.flooded.filter(({ isClosed }) => isClosed).length).toBeGreaterThan(1);
    await expect.poll(() => client.health("ratelimit")).toBe("NOT_SERVING");
    // The rest of what was written is in the buffers of the sockets.
    expect(Math.max(...relay.flooded.map(({ bytes }) => bytes))).toBeLessThan(64 * mebibyte);
    expect(peakBytes() - before).toBeLessThan(128 * mebibyte);
    expect(await stats()).toMatch(/redis_pool\.cx_local_close: [1-9]/);

    relay.become(undefined);
    await expect.poll(ask, { timeout: 30_000 }).toMatchObject({ overallCode: "OK" });
    expect(child.exitCode).toBeNull();
  }

  test.each(hostileReplies)("is disconnected and reported as unavailable: %s", async (_, reply, reason) => {
    await expectContained(await single(binary, paths.openssl), reply, reason);
  });

  test.each<readonly [string, Topology]>([
    ["with TLS", overTls],
    ["that sentinels name", masterOfSentinels],
    ["of a cluster", cluster],
  ])("%s is disconnected and reported as unavailable", { timeout: 60_000 }, async (_, topology) => {
    await expectContained(await topology(binary, paths.openssl), endlessLine, "more than 16777216 bytes");
  });

  test.each<readonly [string, Topology]>([
    ["a server", single],
    ["a sentinel", sentinelItself],
    ["a node of a cluster", cluster],
  ])("is disconnected before it is ready: %s", { timeout: 60_000 }, async (_, topology) => {
    const { relay, env } = await topology(binary, paths.openssl);
    relay.become(endlessLine);
    const { ask, child, peakBytes, failures } = await start({ ...env, REDIS_STARTUP_INITIAL_INTERVAL: "100ms" });
    await expect.poll(failures, { timeout: 20_000 }).toContain("more than 16777216 bytes");
    await expect.poll(() => relay.flooded.filter(({ isClosed }) => isClosed).length).toBeGreaterThan(1);
    expect(Math.max(...relay.flooded.map(({ bytes }) => bytes))).toBeLessThan(64 * mebibyte);
    expect(peakBytes()).toBeLessThan(384 * mebibyte);

    relay.become(undefined);
    await expect.poll(ask, { timeout: 30_000 }).toMatchObject({ overallCode: "OK" });
    expect(child.exitCode).toBeNull();
  });

  test("calls are decided without it by FAILURE_MODE", async () => {
    const { relay, env } = await single(binary, paths.openssl);
    const { client, ask, failures } = await start({ ...env, FAILURE_MODE: "local" });
    await expect.poll(() => client.health("ratelimit")).toBe("SERVING");
    relay.become(endlessLine);
    const codes = [];
    while (!failures().includes("more than 16777216 bytes")) codes.push(await ask());
    expect(codes.filter((outcome) => !("overallCode" in outcome && outcome.overallCode === "OK"))).toEqual([]);
  });
});

describeWith(["memcached"], "a memcached whose response does not end", (paths) => {
  test.each<readonly [string, EndlessResponse]>([
    ["a line", { beginning: "", piece: "x" }],
    ["a value", { beginning: "VALUE k 0 999999999\r\n", piece: "x" }],
    ["values", { beginning: "", piece: "VALUE k 0 1\r\n1\r\n" }],
  ])("is disconnected and reported as unavailable: %s", async (_, response) => {
    const memcached = await startMemcached(paths.memcached);
    onTestFinished(() => memcached.kill());
    const relay = await startHostileRelay(() => memcached.port);
    const env = { BACKEND_TYPE: "memcache", MEMCACHE_HOST_PORT: `127.0.0.1:${relay.port}`, FAILURE_MODE: "error" };
    const { ask, child, peakBytes, failures } = await start({ ...env, MEMCACHE_TIMEOUT: "10s" });
    await expect.poll(ask).toMatchObject({ overallCode: "OK" });
    const before = peakBytes();

    relay.become(response);
    await expect.poll(async () => [await ask(), failures()].at(-1)).toContain("more than 1048576 bytes without");
    await expect.poll(() => relay.flooded.every(({ isClosed }) => isClosed)).toBe(true);
    expect(Math.max(...relay.flooded.map(({ bytes }) => bytes))).toBeLessThan(64 * mebibyte);
    expect(peakBytes() - before).toBeLessThan(128 * mebibyte);

    relay.become(undefined);
    await expect.poll(ask).toMatchObject({ overallCode: "OK" });
    expect(child.exitCode).toBeNull();
  });
});

/** A gRPC server with bare HTTP/2 streams, until the test ends; returns its port. */
async function startGrpcServer(serve: (stream: ServerHttp2Stream) => void, encoding = "identity"): Promise<number> {
  const server = createServer();
  server.on("session", (session) => {
    session.on("error", () => undefined);
    onTestFinished(() => session.destroy());
  });
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.on("error", () => undefined);
    stream.resume();
    stream.respond({ ":status": 200, "content-type": "application/grpc", "grpc-encoding": encoding });
    serve(stream);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  // A TCP server that listens has such an address.
  return (server.address() as AddressInfo).port;
}

/** The head of a gRPC message. */
function messageHead(isCompressed: boolean, length: number): Buffer {
  const head = Buffer.from([isCompressed ? 1 : 0, 0, 0, 0, 0]);
  head.writeUInt32BE(length, 1);
  return head;
}

/** Writes the piece as often as the stream takes it. */
function writeEndlessly(stream: ServerHttp2Stream, piece: Buffer): void {
  if (!stream.destroyed) stream.write(piece, () => setImmediate(() => writeEndlessly(stream, piece)));
}

describe("an xDS server that sends", () => {
  const bomb = gzipSync(Buffer.alloc(2 ** 28));
  const zeros = Buffer.alloc(65_536);

  test.each<readonly [string, Buffer, Buffer | undefined, string]>([
    ["a message of 4 GiB", messageHead(false, 0xffffffff), zeros, "identity"],
    ["a message beyond the bound", messageHead(false, 2 ** 23), zeros, "identity"],
    ["a gzip bomb", Buffer.concat([messageHead(true, bomb.length), bomb]), undefined, "gzip"],
    ["garbage", Buffer.alloc(0), Buffer.alloc(65_536, 0xff), "identity"],
  ])("%s is disconnected, and the files are served", async (_, beginning, piece, encoding) => {
    let streams = 0;
    const port = await startGrpcServer((stream) => {
      streams++;
      stream.write(beginning);
      if (piece !== undefined) writeEndlessly(stream, piece);
    }, encoding);
    const { ask, child, peakBytes, output } = await start({
      CONFIG_TYPE: "GRPC_XDS_SOTW",
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
      XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: "100ms",
      FORCE_START_WITHOUT_INITIAL_CONFIG: "true",
    });
    await expect.poll(ask).toMatchObject({ overallCode: "OK" });
    await expect.poll(() => streams, { timeout: 15_000 }).toBeGreaterThan(1);
    expect(output.join("\n")).toMatch(/xDS server 127\.0\.0\.1:\d+: .*trying again/);
    expect(peakBytes()).toBeLessThan(384 * mebibyte);
    expect(await ask()).toMatchObject({ overallCode: "OK" });
    expect(child.exitCode).toBeNull();
  });
});
