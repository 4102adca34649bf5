/** The environment variables of the reference, each by its effect from outside. */
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { ServerCredentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { response, startXdsServer } from "../../ratelimit-service/src/config/xds/testing/xds-server.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { descriptor } from "../support/rate-limit-client.ts";
import { FixedClock, type InProcessOptions, startInProcess } from "../support/ratelimit-in-process.ts";
import type { Environment } from "../support/ratelimit-process.ts";
import { type RedisServer, startRedis } from "../support/redis-server.ts";

const limits = `domain: d
descriptors:
  - {key: ten, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: one, rate_limit: {unit: day, requests_per_unit: 1}, metadata: {of: one}}
  - {key: second, rate_limit: {unit: second, requests_per_unit: 10}}
`;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "environment-"));
  await writeFiles("root", { "config/limits.yaml": limits });
});
afterAll(() => rm(folder, { recursive: true }));

async function writeFiles(root: string, files: Readonly<Record<string, string>>): Promise<string> {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, root, path)), { recursive: true });
    await writeFile(join(folder, root, path), text);
  }
  return join(folder, root);
}

/** Starts with counters in memory and the limits above, unless `env` says otherwise. */
function start(env: Environment = {}, options: InProcessOptions = { clock: new FixedClock() }) {
  return startInProcess({ BACKEND_TYPE: "memory", RUNTIME_ROOT: join(folder, "root"), ...env }, options);
}

const call = (...entries: readonly string[]) => ({
  domain: "d",
  descriptors: entries.map((entry) => descriptor(entry)),
});

const isOpen = (host: string, port: number): Promise<boolean> =>
  fetch(`http://${host}:${port}/healthcheck`).then(
    () => true,
    () => false,
  );

describe("the addresses of the service", () => {
  test.each(["HOST", "DEBUG_HOST"] as const)("%s is the only address of its server", async (name) => {
    const { http, debug } = await start({ [name]: "127.0.0.2" });
    const port = Number(new URL(name === "HOST" ? http : debug).port);

    expect(await isOpen("127.0.0.2", port)).toBe(true);
    expect(await isOpen("127.0.0.1", port)).toBe(false);
  });

  test("GRPC_HOST is the only address of its server", async () => {
    const { grpcPort, client } = await start({ GRPC_HOST: "127.0.0.2" });
    const session = connectHttp2(`http://127.0.0.2:${grpcPort}`);
    onTestFinished(() => session.destroy());
    await once(session, "connect");

    expect(await client.outcome(call("ten=a"))).toMatchObject({ code: 14 });
  });

  test.each(["PORT", "GRPC_PORT", "DEBUG_PORT"])("%s is the port of its server", async (name) => {
    const port = await freePort();
    const { http, debug, grpcPort } = await start({ [name]: String(port) });

    expect([Number(new URL(http).port), grpcPort, Number(new URL(debug).port)]).toContain(port);
  });

  test("GRPC_MAX_CONNECTION_AGE sends GOAWAY, and after GRPC_MAX_CONNECTION_AGE_GRACE the connection is closed", async () => {
    const opened = async (env: Environment) => {
      const { grpcPort } = await start(env);
      const session = connectHttp2(`http://127.0.0.1:${grpcPort}`);
      session.on("error", () => undefined);
      onTestFinished(() => session.destroy());
      const away = once(session, "goaway");
      const headers = {
        ":method": "POST",
        ":path": "/grpc.health.v1.Health/Watch",
        "content-type": "application/grpc",
      };
      const watch = session.request(headers);
      watch.on("error", () => undefined).write(Buffer.alloc(5));
      await once(watch, "response");
      return { away, ended: once(watch, "close"), watch };
    };
    const patient = await opened({ GRPC_MAX_CONNECTION_AGE: "50ms" });
    const strict = await opened({ GRPC_MAX_CONNECTION_AGE: "50ms", GRPC_MAX_CONNECTION_AGE_GRACE: "50ms" });
    await patient.away;
    await strict.away;

    await strict.ended;
    expect(patient.watch.closed).toBe(false);
  });
});

describe("the content of responses", () => {
  test("LIMIT_LIMIT_HEADER, LIMIT_REMAINING_HEADER and LIMIT_RESET_HEADER name the headers of LIMIT_RESPONSE_HEADERS_ENABLED", async () => {
    const headers = async (env: Environment) => {
      const { client } = await start(env);
      const { responseHeadersToAdd } = await client.send(call("ten=a"));
      return responseHeadersToAdd.map(({ key, value }) => `${key}: ${value}`);
    };
    const names = { LIMIT_LIMIT_HEADER: "X-L", LIMIT_REMAINING_HEADER: "X-R", LIMIT_RESET_HEADER: "X-S" };

    const [limit, remaining, reset] = await headers({ LIMIT_RESPONSE_HEADERS_ENABLED: "true", ...names });
    expect([limit, remaining]).toEqual(["X-L: 10", "X-R: 9"]);
    expect(reset).toMatch(/^X-S: \d+$/);
    expect(await headers(names)).toEqual([]);
  });

  test("SHADOW_MODE denies nothing", async () => {
    const { client } = await start({ SHADOW_MODE: "true" });
    for (let i = 0; i < 3; i++) expect(await client.send(call("one=a"))).toMatchObject({ overallCode: "OK" });
  });

  test.each([
    ["false", "OVER_LIMIT"],
    ["true", "OK"],
  ])("with QUOTA_MODE=%s one limit of two that is used up makes a call %s", async (value, code) => {
    const { client } = await start({ QUOTA_MODE: value });
    await client.send(call("one=a", "ten=a"));

    expect(await client.send(call("one=a", "ten=a"))).toMatchObject({ overallCode: code });
  });

  test("RESPONSE_DYNAMIC_METADATA adds the request", async () => {
    const send = async (env: Environment) => (await (await start(env)).client.send(call("one=a"))).dynamicMetadata;

    expect(await send({})).toBeNull();
    expect(await send({ RESPONSE_DYNAMIC_METADATA: "true" })).toMatchObject({
      fields: { domain: { stringValue: "d" }, metadata: { structValue: { fields: { of: { stringValue: "one" } } } } },
    });
  });

  test.each([
    ["0.8", 2],
    ["0.5", 5],
  ])("NEAR_LIMIT_RATIO=%s counts %i of 10 hits as near the limit", async (value, near) => {
    const { client, stats } = await start({ NEAR_LIMIT_RATIO: value });
    for (let i = 0; i < 10; i++) await client.send(call("ten=a"));

    expect((await stats()).get("ratelimit.service.rate_limit.d.ten.near_limit")).toBe(near);
  });
});

describe("files", () => {
  test("are below RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY", async () => {
    const root = await writeFiles("deep", { "sub/app/limits.yaml": limits, "config/bad.yaml": "domain: ''\n" });
    const { client } = await start({ RUNTIME_ROOT: root, RUNTIME_SUBDIRECTORY: "sub", RUNTIME_APPDIRECTORY: "app" });

    expect((await client.send(call("ten=a"))).statuses[0]?.limitRemaining).toBe(9);
  });

  test.each([
    ["true", "config.bad.yaml"],
    ["false", "bad.yaml"],
  ])("with RUNTIME_WATCH_ROOT=%s are named as in %s", async (value, name) => {
    const root = await writeFiles("watched", { "config/bad.yaml": "domain: ''\n" });
    const { output } = await start({ RUNTIME_ROOT: root, RUNTIME_WATCH_ROOT: value });
    const line = output.find((each) => each.includes("cannot have empty domain")) ?? "";

    expect(/[\w.]*bad\.yaml(?=: config file)/.exec(line)?.[0]).toBe(name);
  });

  test("RUNTIME_IGNOREDOTFILES ignores the second paths of a ConfigMap's files", async () => {
    const root = await writeFiles("dots", { "config/..2026/limits.yaml": limits, "config/limits.yaml": limits });
    const twice = await start({ RUNTIME_ROOT: root });
    const single = await start({ RUNTIME_ROOT: root, RUNTIME_IGNOREDOTFILES: "true" });

    expect(twice.output.join("")).toContain("duplicate domain 'd'");
    expect(single.output.join("")).not.toContain("duplicate");
    expect((await single.client.send(call("ten=a"))).statuses[0]?.limitRemaining).toBe(9);
  });

  test("MERGE_DOMAIN_CONFIG lets two files describe one domain", async () => {
    const more = "domain: d\ndescriptors:\n  - {key: more, rate_limit: {unit: day, requests_per_unit: 3}}\n";
    const root = await writeFiles("merged", { "config/a.yaml": limits, "config/b.yaml": more });
    const apart = await start({ RUNTIME_ROOT: root });
    const merged = await start({ RUNTIME_ROOT: root, MERGE_DOMAIN_CONFIG: "true" });

    expect(apart.output.join("")).toContain("duplicate domain 'd'");
    const { statuses } = await merged.client.send(call("ten=a", "more=a"));
    expect(statuses.map(({ limitRemaining }) => limitRemaining)).toEqual([9, 2]);
  });

  test.each([
    ["false", "SERVING"],
    ["true", "NOT_SERVING"],
  ])("with HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=%s a folder without files is %s", async (value, health) => {
    await mkdir(join(folder, "empty", "config"), { recursive: true });
    const env = { RUNTIME_ROOT: join(folder, "empty"), HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: value };
    const { client } = await start(env);

    expect(await client.health("ratelimit")).toBe(health);
  });
});

describe("the log", () => {
  test.each([
    ["WARN", 0],
    ["INFO", 1],
  ])("LOG_LEVEL=%s", async (level, lines) => {
    const { output } = await start({ LOG_LEVEL: level });

    expect(output.filter((line) => line.includes("configuration loaded"))).toHaveLength(lines);
  });

  test.each([
    ["json", /^\{"/],
    ["text", /^\d{4}-\S+ info ratelimit::config /],
  ])("LOG_FORMAT=%s", async (format, form) => {
    const { output } = await start({ LOG_LEVEL: "INFO", LOG_FORMAT: format });

    expect(output[0]).toMatch(form);
  });
});

describe("an xDS server", () => {
  const xds = (port: number): Environment => ({
    CONFIG_TYPE: "GRPC_XDS_SOTW",
    CONFIG_GRPC_XDS_SERVER_URL: `localhost:${port}`,
  });
  const config = {
    name: "d",
    domain: "d",
    descriptors: [{ key: "ten", rateLimit: { unit: "DAY", requestsPerUnit: 10 } as const }],
  };

  test("gets CONFIG_GRPC_XDS_NODE_ID, CONFIG_GRPC_XDS_NODE_METADATA and CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", async () => {
    const server = await startXdsServer();
    onTestFinished(() => server.close());
    const stream = server.streams.next();
    void stream.then((opened) => opened.write(response("1", config)));
    await start({
      ...xds(server.port),
      CONFIG_GRPC_XDS_NODE_ID: "limits-1",
      CONFIG_GRPC_XDS_NODE_METADATA: "zone=a,rack=7",
      CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: "x-tenant:blue",
    });

    const { node } = await server.requests.next();
    expect(node?.id).toBe("limits-1");
    expect(node?.metadata?.fields).toMatchObject({ zone: { stringValue: "a" }, rack: { stringValue: "7" } });
    expect((await stream).metadata.get("x-tenant")).toEqual(["blue"]);
  });

  test("that is unavailable is retried every CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", async () => {
    const clock = new FixedClock();
    const env = { ...xds(await freePort()), CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: "17ms" };
    await start({ ...env, FORCE_START_WITHOUT_INITIAL_CONFIG: "true", XDS_CLIENT_BACKOFF_JITTER: "false" }, { clock });

    await expect.poll(() => clock.delaysMs.filter((delay) => delay === 17).length).toBeGreaterThan(2);
  });

  test.each<[string, Environment, readonly number[]]>([
    ["XDS_CLIENT_BACKOFF_INITIAL_INTERVAL, doubled", { XDS_CLIENT_BACKOFF_JITTER: "false" }, [11, 22]],
    [
      "XDS_CLIENT_BACKOFF_MAX_INTERVAL at most",
      { XDS_CLIENT_BACKOFF_JITTER: "false", XDS_CLIENT_BACKOFF_MAX_INTERVAL: "13ms" },
      [11, 13],
    ],
    [
      "an interval randomized by XDS_CLIENT_BACKOFF_RANDOM_FACTOR, with XDS_CLIENT_BACKOFF_JITTER",
      { XDS_CLIENT_BACKOFF_JITTER: "true", XDS_CLIENT_BACKOFF_RANDOM_FACTOR: "0.5" },
      [5.5, 11],
    ],
  ])("that ends the stream is retried after %s", async (_, env, delays) => {
    const server = await startXdsServer();
    onTestFinished(() => server.close());
    const clock = new FixedClock();
    const settings = { ...xds(server.port), FORCE_START_WITHOUT_INITIAL_CONFIG: "true" };
    await start({ XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: "11ms", ...settings, ...env }, { clock, random: () => 0 });
    for (let i = 0; i < delays.length; i++) {
      const stream = await server.streams.next();
      stream.end();
    }

    await expect.poll(() => clock.delaysMs).toEqual(expect.arrayContaining([...delays]));
  });

  test("may send messages of XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", async () => {
    const server = await startXdsServer();
    onTestFinished(() => server.close());
    void server.streams.next().then((stream) => stream.write(response("1", config)));
    const env = { ...xds(server.port), XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: "20" };
    const { output } = await start({ ...env, FORCE_START_WITHOUT_INITIAL_CONFIG: "true" });

    await expect.poll(() => output.join("")).toMatch(/larger than max|RESOURCE_EXHAUSTED/);
  });

  describeWith(["openssl"], "over TLS", ({ openssl }) => {
    test.each<[string, Environment, boolean]>([
      ["with all settings", {}, true],
      ["CONFIG_GRPC_XDS_SERVER_USE_TLS is needed", { CONFIG_GRPC_XDS_SERVER_USE_TLS: "false" }, false],
      ["CONFIG_GRPC_XDS_SERVER_TLS_CACERT is needed", { CONFIG_GRPC_XDS_SERVER_TLS_CACERT: "" }, false],
      ["CONFIG_GRPC_XDS_SERVER_TLS_SAN is needed", { CONFIG_GRPC_XDS_SERVER_TLS_SAN: "" }, false],
      [
        "CONFIG_GRPC_XDS_CLIENT_TLS_CERT and CONFIG_GRPC_XDS_CLIENT_TLS_KEY are needed",
        { CONFIG_GRPC_XDS_CLIENT_TLS_CERT: "", CONFIG_GRPC_XDS_CLIENT_TLS_KEY: "" },
        false,
      ],
    ])("serves limits: %s", async (_, env, serves) => {
      const authority = new TestAuthority(openssl, await mkdtemp(join(folder, "xds-")), "xds authority");
      const own = authority.issue("server", "DNS:xds.test");
      const client = authority.issue("client", "DNS:limits.test");
      const pair = { private_key: Buffer.from(own.key), cert_chain: Buffer.from(own.cert) };
      const trust = Buffer.from(authority.authority.cert);
      const server = await startXdsServer(ServerCredentials.createSsl(trust, [pair], true));
      onTestFinished(() => server.close());
      void server.streams.next().then((stream) => stream.write(response("1", config)));
      const service = await start({
        ...xds(server.port),
        FORCE_START_WITHOUT_INITIAL_CONFIG: "true",
        CONFIG_GRPC_XDS_SERVER_USE_TLS: "true",
        CONFIG_GRPC_XDS_SERVER_TLS_CACERT: authority.authority.certFile,
        CONFIG_GRPC_XDS_SERVER_TLS_SAN: "xds.test",
        CONFIG_GRPC_XDS_CLIENT_TLS_CERT: client.certFile,
        CONFIG_GRPC_XDS_CLIENT_TLS_KEY: client.keyFile,
        ...env,
      });

      if (serves) await expect.poll(() => service.client.outcome(call("ten=a"))).toHaveProperty("overallCode", "OK");
      else await expect.poll(() => service.output.join("")).toContain("no configuration from the xDS server");
    });
  });
});

describeWith(["redis-server", "openssl"], "Redis", (paths) => {
  const binary = paths["redis-server"];
  let redis: RedisServer;
  let perSecond: RedisServer;
  let socket: string;
  let perSecondSocket: string;
  beforeAll(async () => {
    socket = join(folder, "redis.sock");
    perSecondSocket = join(folder, "per-second.sock");
    redis = await startRedis(binary, ["--unixsocket", socket]);
    perSecond = await startRedis(binary, ["--unixsocket", perSecondSocket]);
  });
  afterAll(async () => {
    await redis.close();
    await perSecond.close();
  });

  const onRedis = (env: Environment = {}): Environment => ({
    BACKEND_TYPE: "redis",
    REDIS_SOCKET_TYPE: "tcp",
    REDIS_URL: `127.0.0.1:${redis.port}`,
    CACHE_KEY_PREFIX: `${Math.random()}:`,
    ...env,
  });

  test("REDIS_SOCKET_TYPE and REDIS_PERSECOND_SOCKET_TYPE select Unix sockets", async () => {
    const addresses = { REDIS_URL: socket, REDIS_PERSECOND_URL: perSecondSocket, REDIS_PERSECOND: "true" };
    const { client } = await start(
      onRedis({
        ...addresses,
        CACHE_KEY_PREFIX: "socket:",
        REDIS_SOCKET_TYPE: "unix",
        REDIS_PERSECOND_SOCKET_TYPE: "unix",
      }),
    );
    await expect.poll(() => client.outcome(call("ten=a", "second=a"))).toHaveProperty("overallCode");

    expect(await redis.command("KEYS", "socket:*")).toEqual([expect.stringMatching(/^socket:d_ten_a_/)]);
    expect(await perSecond.command("KEYS", "socket:*")).toEqual([expect.stringMatching(/^socket:d_second_a_/)]);
  });

  test("EXPIRATION_JITTER_MAX_SECONDS bounds the extra lifetime of a counter", async () => {
    const clock = () => new FixedClock(1_700_000_022_000);
    for (const [seconds, least] of [
      ["0", 86_400],
      ["1000", 86_900],
    ] as const) {
      const env = onRedis({ CACHE_KEY_PREFIX: `jitter${seconds}:`, EXPIRATION_JITTER_MAX_SECONDS: seconds });
      const { client } = await start(env, { clock: clock(), random: () => 0.5 });
      await expect.poll(() => client.outcome(call("ten=a"))).toHaveProperty("overallCode");
      const [key = ""] = (await redis.command("KEYS", `jitter${seconds}:*`)) as readonly string[];
      const left = Number(await redis.command("TTL", key));

      expect(left).toBeLessThanOrEqual(least);
      expect(left).toBeGreaterThan(least - 60);
    }
  });

  test("REDIS_TIMEOUT and REDIS_PERSECOND_TIMEOUT bound the calls of their Redis", async () => {
    const silent = await startRedis(binary);
    onTestFinished(() => silent.close());
    const { client } = await start(
      onRedis({
        REDIS_PERSECOND: "true",
        REDIS_PERSECOND_SOCKET_TYPE: "tcp",
        REDIS_PERSECOND_URL: `127.0.0.1:${silent.port}`,
        REDIS_TIMEOUT: "60s",
        REDIS_PERSECOND_TIMEOUT: "500ms",
      }),
    );
    await expect.poll(() => client.outcome(call("ten=a", "second=a"))).toHaveProperty("overallCode");
    silent.pause();
    const [first, other] = await Promise.all([client.outcome(call("second=a")), client.outcome(call("ten=a"))]);
    silent.resume();
    expect(first).toMatchObject({ code: 2, details: expect.stringContaining("500") as string });
    expect(other).toMatchObject({ overallCode: "OK" });
    await silent.kill();

    const { client: slow } = await start(onRedis({ REDIS_TIMEOUT: "501ms" }));
    await expect.poll(() => slow.outcome(call("ten=a"))).toHaveProperty("overallCode");
    redis.pause();
    const outcome = await slow.outcome(call("ten=a"));
    redis.resume();
    expect(outcome).toMatchObject({ code: 2, details: expect.stringContaining("501") as string });
  });

  test("REDIS_SENTINEL_AUTH and REDIS_PERSECOND_SENTINEL_AUTH apply to the sentinels only", async () => {
    const watch = async (name: string, server: RedisServer) => {
      const config = join(folder, `${name}.conf`);
      await writeFile(config, `sentinel monitor ${name} 127.0.0.1 ${server.port} 1\nrequirepass watchword\n`);
      const sentinel = await startRedis(binary, ["--sentinel"], config);
      onTestFinished(() => sentinel.close());
      return `${name},127.0.0.1:${sentinel.port}`;
    };
    const env = onRedis({
      REDIS_TYPE: "SENTINEL",
      REDIS_URL: await watch("main", redis),
      REDIS_PERSECOND: "true",
      REDIS_PERSECOND_SOCKET_TYPE: "tcp",
      REDIS_PERSECOND_TYPE: "SENTINEL",
      REDIS_PERSECOND_URL: await watch("seconds", perSecond),
      REDIS_STARTUP_INITIAL_INTERVAL: "20ms",
      LOG_LEVEL: "INFO",
    });
    const auth = { REDIS_SENTINEL_AUTH: "watchword", REDIS_PERSECOND_SENTINEL_AUTH: "watchword" };
    const { client } = await start({ ...env, ...auth });
    await expect
      .poll(() => client.outcome(call("ten=a", "second=a")), { timeout: 10_000 })
      .toHaveProperty("overallCode");

    for (const name of Object.keys(auth)) {
      const rejected = await start({ ...env, ...auth, [name]: "wrong" });
      const outcomes = async () => [
        await rejected.client.outcome(call("ten=b")),
        await rejected.client.outcome(call("second=b")),
      ];
      const failing = { code: 2 };
      const counting = { overallCode: "OK" };
      const isMain = name === "REDIS_SENTINEL_AUTH";
      await expect
        .poll(outcomes, { timeout: 10_000 })
        .toMatchObject(isMain ? [failing, counting] : [counting, failing]);
    }
  });

  test("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION accepts a certificate for another host", async () => {
    const authority = new TestAuthority(paths.openssl, folder, "redis authority");
    const own = authority.issue("elsewhere", "DNS:elsewhere.test");
    const port = await freePort();
    const files = ["--tls-cert-file", own.certFile, "--tls-key-file", own.keyFile, "--tls-auth-clients", "no"];
    const trust = ["--tls-ca-cert-file", authority.authority.certFile];
    const server = await startRedis(binary, ["--tls-port", String(port), ...files, ...trust]);
    onTestFinished(() => server.close());
    const env = onRedis({
      REDIS_URL: `127.0.0.1:${port}`,
      REDIS_TLS: "true",
      REDIS_TLS_CACERT: authority.authority.certFile,
    });
    const strict = await start(env);
    const lenient = await start({ ...env, REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: "true" });

    await expect.poll(() => lenient.client.outcome(call("ten=a"))).toHaveProperty("overallCode");
    expect(await strict.client.outcome(call("ten=a"))).toHaveProperty("code", 2);
    expect(strict.output.join("")).toContain("altnames");
  });
});

test("STATS_FLUSH_INTERVAL is the interval of flushes to STATSD_HOST and STATSD_PORT with USE_STATSD", async () => {
  const clock = new FixedClock();
  const server = createServer((socket) => socket.resume()).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const connected = once(server, "connection");
  const env = { USE_STATSD: "true", STATSD_HOST: "127.0.0.1", STATSD_PORT: String(port) };
  await start({ ...env, STATS_FLUSH_INTERVAL: "19ms" }, { clock });
  await connected;

  expect(clock.delaysMs).toContain(19);
});
