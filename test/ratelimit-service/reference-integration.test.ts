/**
 * Every leaf of the integration tests of envoyproxy/ratelimit (test/integration at f2fb157, July 2026) by its name,
 * with its settings and its assertions on responses, counters and gauges: 40 with Redis, 6 with memcached. Where a leaf
 * waits for the time of day to pass, the test advances its clock.
 */
import { once } from "node:events";
import { copyFile, cp, mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import type { RateLimitConfig } from "@gatewayproxy/protos/gen/ratelimit/config/ratelimit/v3/RateLimitConfig";
import { RateLimitClient } from "../../ratelimit-service/src/transport/grpc/testing/grpc-clients.ts";
import { credentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { response, startXdsServer } from "../../ratelimit-service/src/config/xds/testing/xds-server.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { type MemcachedServer, startMemcached } from "../support/memcached-server.ts";
import { freePort } from "../support/free-port.ts";
import { descriptor } from "../support/rate-limit-client.ts";
import { FixedClock, type InProcessService, startInProcess } from "../support/ratelimit-in-process.ts";
import type { Environment } from "../support/ratelimit-process.ts";
import { type RedisServer, startRedis, startRedisCluster } from "../support/redis-server.ts";

const limit = (key: string, unit: string, requests: number) =>
  `  - key: ${key}\n    rate_limit: {unit: ${unit}, requests_per_unit: ${requests}}\n`;
const files: Readonly<Record<string, string>> = {
  "basic.yaml": `domain: basic\ndescriptors:\n${["key1", "key1_local"].map((key) => limit(key, "second", 50)).join("")}`,
  "another.yaml": `domain: another\ndescriptors:\n${["", "_local"]
    .map((end) => limit(`key2${end}`, "minute", 20) + limit(`key3${end}`, "hour", 10) + limit(`key4${end}`, "day", 20))
    .join("")}`,
  "share_threshold.yaml": `domain: share-threshold-test
descriptors:
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: files_no_share, value: files_no_share/*, rate_limit: {unit: hour, requests_per_unit: 10}}
`,
};
const reloadFile = `domain: reload\ndescriptors:\n${limit("key1", "second", 50)}${limit("block", "second", 0)}`;

let folder: string;
let root: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "reference-integration-"));
  root = join(folder, "current");
  await mkdir(join(root, "ratelimit", "config"), { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(join(root, "ratelimit", "config", name), text);
});
afterAll(() => rm(folder, { recursive: true }));

/** Settings that all leaves share. */
const common = (): Environment => ({
  RUNTIME_ROOT: root,
  RUNTIME_SUBDIRECTORY: "ratelimit",
  REDIS_SOCKET_TYPE: "tcp",
  REDIS_PERSECOND_SOCKET_TYPE: "tcp",
  // The reference listens once it has its store; here the health reports that the store is connected.
  REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: "true",
  FAILURE_MODE: "error",
});

/** Gives each leaf new counters, although they share a store. */
let leaves = 0;

/** Starts the service as a leaf does; `basic` uses another key if the local cache is on. */
async function start(env: Environment) {
  const clock = new FixedClock(1_700_000_022_000 + 86_400_000 * ++leaves);
  const service = await startInProcess({ ...common(), ...env }, { clock });
  await expect.poll(() => service.client.health("ratelimit"), { timeout: 10_000 }).toBe("SERVING");
  return { ...service, clock };
}

const shown = (status: unknown, unit: string, requestsPerUnit: number, code: string, limitRemaining: number) =>
  expect(status).toMatchObject({ code, limitRemaining, currentLimit: { requestsPerUnit, unit } });

/** testBasicBaseConfig */
async function basic(env: Environment): Promise<void> {
  const { client, clock, stats } = await start(env);
  const isCached = env["LOCAL_CACHE_SIZE_IN_BYTES"] !== undefined;
  const stopsAtOver = env["STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT"] !== undefined;
  const name = (key: string) => (isCached ? `${key}_local` : key);
  const send = (domain: string, ...descriptors: readonly (readonly [string, string])[]) =>
    client.send({
      domain,
      descriptors: descriptors.map(([key, value]) => descriptor(`${name(key)}=${value}`)),
      hitsAddend: 1,
    });
  /** The counters of a rule, and the gauges of the local cache as [hits, misses]. */
  const counts = async (domain: string, key: string) => {
    const all = await stats();
    const of = (counter: string) => all.get(`ratelimit.service.rate_limit.${domain}.${name(key)}.${counter}`) ?? 0;
    return {
      total: of("total_hits"),
      over: of("over_limit"),
      cached: of("over_limit_with_local_cache"),
      cache: [all.get("ratelimit.localcache.hitCount") ?? 0, all.get("ratelimit.localcache.missCount") ?? 0],
    };
  };
  const whenCached = (value: number) => (isCached ? value : 0);

  expect(await send("foo", ["hello", "world"])).toMatchObject({
    overallCode: "OK",
    statuses: [{ code: "OK", currentLimit: null, limitRemaining: 0 }],
  });
  expect(await counts("foo", "hello")).toMatchObject({ cache: [0, 0] });

  const first = await send("basic", ["key1", "foo"]);
  expect(first.overallCode).toBe("OK");
  shown(first.statuses[0], "SECOND", 50, "OK", 49);
  expect(await counts("basic", "key1")).toMatchObject({ total: 1, cache: [0, whenCached(1)] });

  for (let i = 0; i < 25; i++) {
    const reply = await send("another", ["key2", "alone"]);
    const code = i < 20 ? "OK" : "OVER_LIMIT";
    expect(reply.overallCode).toBe(code);
    shown(reply.statuses[0], "MINUTE", 20, code, Math.max(0, 19 - i));
    expect(await counts("another", "key2")).toEqual({
      total: i + 1,
      over: Math.max(0, i - 19),
      cached: whenCached(Math.max(0, i - 20)),
      cache: [whenCached(Math.max(0, i - 20)), whenCached(Math.min(i, 20) + 2)],
    });
  }

  for (let i = 0; i < 15; i++) {
    const reply = await send("another", ["key2", "both"], ["key3", "both"]);
    const code = i < 10 ? "OK" : "OVER_LIMIT";
    expect(reply.overallCode).toBe(code);
    shown(reply.statuses[0], "MINUTE", 20, "OK", stopsAtOver && i >= 10 ? 10 : 19 - i);
    shown(reply.statuses[1], "HOUR", 10, code, Math.max(0, 9 - i));
    expect(await counts("another", "key2")).toMatchObject({ total: i + 26, over: 5, cached: whenCached(4) });
    expect(await counts("another", "key3")).toEqual({
      total: i + 1,
      over: Math.max(0, i - 9),
      cached: whenCached(Math.max(0, i - 10)),
      // Of both keys until key3 is known to be over, then of key2.
      cache: [whenCached(i < 10 ? 4 : i - 6), whenCached(i < 10 ? 2 * i + 24 : i + 34)],
    });
  }

  const until = async () =>
    Number((await send("another", ["key4", "durTest"])).statuses[0]?.durationUntilReset?.seconds);
  const before = await until();
  clock.advance(2_000);
  expect(await until()).toBe(before - 2);
}

/** testConfigReload: `change` and `restore` edit the configuration. */
async function reload(service: InProcessService, change: () => unknown, restore: () => unknown): Promise<void> {
  const { client, stats } = service;
  const loads = async () => (await stats()).get("ratelimit.service.config_load_success") ?? 0;
  const send = (key: string) =>
    client.send({ domain: "reload", descriptors: [descriptor(`${key}=foo`)], hitsAddend: 1 });
  const unknown = await send("block");
  expect(unknown).toMatchObject({ overallCode: "OK", statuses: [{ code: "OK", currentLimit: null }] });

  const before = await loads();
  await change();
  await expect.poll(loads, { timeout: 10_000 }).toBeGreaterThan(before);
  shown((await send("key1")).statuses[0], "SECOND", 50, "OK", 49);

  const changed = await loads();
  await restore();
  await expect.poll(loads, { timeout: 10_000 }).toBeGreaterThan(changed);
  expect((await send("key1")).statuses[0]?.currentLimit).toBeNull();
}

/** The initial configurations of the reference's xDS server, and `extra`. */
function xdsConfigs(...extra: readonly RateLimitConfig[]): readonly RateLimitConfig[] {
  const descriptors = (keys: readonly (readonly [string, "SECOND" | "MINUTE" | "HOUR" | "DAY", number])[]) =>
    keys.flatMap(([key, unit, requestsPerUnit]) =>
      [key, `${key}_local`].map((each) => ({ key: each, rateLimit: { unit, requestsPerUnit } })),
    );
  return [
    { name: "basic", domain: "basic", descriptors: descriptors([["key1", "SECOND", 50]]) },
    {
      name: "another",
      domain: "another",
      descriptors: descriptors([
        ["key2", "MINUTE", 20],
        ["key3", "HOUR", 10],
        ["key4", "DAY", 20],
      ]),
    },
    ...extra,
  ];
}

/** The environment of a leaf by xDS, and a function that sends a version. */
async function startXds() {
  const server = await startXdsServer();
  onTestFinished(() => server.close());
  const stream = server.streams.next();
  const send = async (version: string, ...extra: readonly RateLimitConfig[]) =>
    void (await stream).write(response(version, ...xdsConfigs(...extra)));
  void send("1");
  const env = {
    CONFIG_TYPE: "GRPC_XDS_SOTW",
    CONFIG_GRPC_XDS_NODE_ID: "init-test-node",
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
  };
  return { env, send };
}

const cached = { LOCAL_CACHE_SIZE_IN_BYTES: "1000" };
const stops = { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: "true" };

describeWith(["redis-server", "openssl"], "with Redis", (paths) => {
  const binary = paths["redis-server"];
  let main: RedisServer;
  let second: RedisServer;
  const closing: (() => unknown)[] = [];
  beforeAll(async () => {
    main = await startRedis(binary);
    second = await startRedis(binary);
    closing.push(
      () => main.close(),
      () => second.close(),
    );
  });
  afterAll(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  const redis = (env: Environment = {}): Environment => ({ REDIS_URL: `localhost:${main.port}`, ...env });
  const perSecond = (port = second.port): Environment => ({
    REDIS_PERSECOND: "true",
    REDIS_PERSECOND_URL: `localhost:${port}`,
  });

  test.each<[string, () => Environment]>([
    ["WithoutPerSecondRedis", () => ({})],
    ["WithPerSecondRedis", () => perSecond()],
    ["WithoutPerSecondRedisWithLocalCache", () => cached],
    ["WithPerSecondRedisWithLocalCache", () => ({ ...perSecond(), ...cached })],
    ["WithoutPerSecondRedisWithCachePrefix", () => ({ CACHE_KEY_PREFIX: "prefix:" })],
    ["WithoutPerSecondRedisWithstopCacheKeyIncrementWhenOverlimitConfig", () => stops],
    ["WithPerSecondRedisWithstopCacheKeyIncrementWhenOverlimitConfig", () => ({ ...perSecond(), ...stops })],
    ["WithoutPerSecondRedisWithLocalCacheAndstopCacheKeyIncrementWhenOverlimitConfig", () => ({ ...cached, ...stops })],
    [
      "WithPerSecondRedisWithLocalCacheAndstopCacheKeyIncrementWhenOverlimitConfig",
      () => ({ ...perSecond(), ...cached, ...stops }),
    ],
  ])("TestBasicConfig/%s", async (_, env) => {
    await basic(redis(env()));
    const keys = (await second.command("KEYS", "basic_key1*")) as readonly string[];
    const prefixed = (await main.command("KEYS", "prefix:*")) as readonly string[];
    if ("REDIS_PERSECOND" in env()) expect(keys.length).toBeGreaterThan(0);
    if ("CACHE_KEY_PREFIX" in env()) expect(prefixed.length).toBeGreaterThan(0);
  });

  test.each<[string, () => Environment]>([
    ["WithoutPerSecondRedis", () => ({})],
    ["WithPerSecondRedis", () => perSecond()],
    ["WithoutPerSecondRedisWithLocalCache", () => cached],
    ["WithPerSecondRedisWithLocalCache", () => ({ ...perSecond(), ...cached })],
  ])("TestXdsProviderBasicConfig/%s", async (_, env) => {
    const { env: xds } = await startXds();
    await basic(redis({ ...env(), ...xds }));
  });

  test("TestBasicConfig_ExtraTags", async () => {
    const { client, stats } = await start(redis({ EXTRA_TAGS: "foo:bar,a:b" }));
    await client.send({ domain: "basic", descriptors: [descriptor("key1=foo")], hitsAddend: 1 });
    const all = await stats();
    const tags = ".__a=b.__foo=bar";

    expect(all.get(`ratelimit.service.rate_limit.basic.key1.total_hits${tags}`)).toBe(1);
    expect(all.get(`ratelimit.service.config_load_success${tags}`)).toBe(1);
  });

  describe("over TLS", () => {
    let authority: TestAuthority;
    let plain: number;
    let plainPerSecond: number;
    let mutual: number;

    beforeAll(async () => {
      authority = new TestAuthority(paths.openssl, folder, "redis authority");
      const server = authority.issue("redis", "DNS:localhost", "IP:127.0.0.1");
      const startTls = async (asksClients: "yes" | "no") => {
        const port = await freePort();
        const files = ["--tls-cert-file", server.certFile, "--tls-key-file", server.keyFile];
        const trust = ["--tls-ca-cert-file", authority.authority.certFile, "--tls-auth-clients", asksClients];
        const password = ["--requirepass", "password123"];
        const started = await startRedis(binary, ["--tls-port", String(port), ...files, ...trust, ...password]);
        closing.push(() => started.close());
        return port;
      };
      [plain, plainPerSecond, mutual] = [await startTls("no"), await startTls("no"), await startTls("yes")];
    });

    /** The reference's run adds the authority to the system's; test/process/system-authorities.test.ts tests that. */
    const tls = (port: number): Environment => ({
      REDIS_URL: `localhost:${port}`,
      REDIS_TLS: "true",
      REDIS_AUTH: "password123",
      REDIS_TLS_CACERT: authority.authority.certFile,
    });
    const tlsPerSecond = (): Environment => ({
      ...perSecond(plainPerSecond),
      REDIS_PERSECOND_TLS: "true",
      REDIS_PERSECOND_AUTH: "password123",
    });

    test.each<[string, () => Environment]>([
      ["WithoutPerSecondRedisTLS", () => tls(plain)],
      ["WithPerSecondRedisTLS", () => ({ ...tls(plain), ...tlsPerSecond() })],
      ["WithoutPerSecondRedisTLSWithLocalCache", () => ({ ...tls(plain), ...cached })],
      ["WithPerSecondRedisTLSWithLocalCache", () => ({ ...tls(plain), ...tlsPerSecond(), ...cached })],
      [
        "WithoutPerSecondRedisTLSWithClientCert",
        () => {
          const { certFile, keyFile } = authority.issue("limits");
          return { ...tls(mutual), REDIS_TLS_CLIENT_CERT: certFile, REDIS_TLS_CLIENT_KEY: keyFile };
        },
      ],
    ])("TestBasicTLSConfig/%s", async (_, env) => {
      await basic(env());
    });

    test("Test_mTLS", async () => {
      const servers = new TestAuthority(paths.openssl, folder, "grpc servers");
      const clients = new TestAuthority(paths.openssl, folder, "grpc clients");
      const own = servers.issue("grpc", "DNS:localhost");
      const { grpcPort } = await startInProcess({
        ...common(),
        ...tls(plain),
        GRPC_SERVER_USE_TLS: "true",
        GRPC_SERVER_TLS_CERT: own.certFile,
        GRPC_SERVER_TLS_KEY: own.keyFile,
        GRPC_CLIENT_TLS_CACERT: clients.authority.certFile,
        GRPC_CLIENT_TLS_SAN: "localhost",
      });
      const call = (altName: string) => {
        const { key, cert } = clients.issue("caller", altName);
        const trust = [servers.authority.cert, key, cert].map((text) => Buffer.from(text));
        const target = { "grpc.ssl_target_name_override": "localhost" };
        const client = new RateLimitClient(`127.0.0.1:${grpcPort}`, credentials.createSsl(...trust), target);
        onTestFinished(() => client.close());
        const request = { domain: "basic", descriptors: [descriptor("key1=foo")] };
        return new Promise((resolve) => {
          client.shouldRateLimit(request, (error, reply) => resolve(reply?.overallCode ?? error?.code));
        });
      };

      await expect.poll(() => call("DNS:localhost"), { timeout: 10_000 }).toBe("OK");
      expect(await call("DNS:elsewhere")).toBe(14);
    });
  });

  describe("TestReloadGRPCServerCerts", () => {
    test("WithInitialCert, WithNewCertFail, WithNewCertOK, WithInitialCertFail", async () => {
      const [initial, next] = ["initial", "next"].map((name) => {
        const authority = new TestAuthority(paths.openssl, folder, `${name} authority`);
        return { authority, ...authority.issue(`${name}-server`, "DNS:localhost") };
      });
      if (initial === undefined || next === undefined) throw new Error("a certificate is missing");
      const live = await mkdtemp(join(folder, "certificates-"));
      const [cert, key] = [join(live, "tls.crt"), join(live, "tls.key")];
      await copyFile(initial.certFile, cert);
      await copyFile(initial.keyFile, key);
      const env = { GRPC_SERVER_USE_TLS: "true", GRPC_SERVER_TLS_CERT: cert, GRPC_SERVER_TLS_KEY: key };
      const { grpcPort } = await startInProcess({ ...common(), ...redis(env) });
      const shakesHands = async ({ authority }: { authority: TestAuthority }) => {
        const trust = { ca: authority.authority.cert, servername: "localhost", ALPNProtocols: ["h2"] };
        const socket: TLSSocket = connect({ host: "127.0.0.1", port: grpcPort, ...trust });
        return once(socket, "secureConnect").then(
          () => (socket.destroy(), true),
          () => false,
        );
      };

      expect(await shakesHands(initial), "WithInitialCert").toBe(true);
      expect(await shakesHands(next), "WithNewCertFail").toBe(false);
      await cp(next.certFile, `${cert}.new`);
      await cp(next.keyFile, `${key}.new`);
      await rename(`${cert}.new`, cert);
      await rename(`${key}.new`, key);
      await expect.poll(() => shakesHands(next), { timeout: 10_000, message: "WithNewCertOK" }).toBe(true);
      expect(await shakesHands(initial), "WithInitialCertFail").toBe(false);
    });
  });

  describe("with a password", () => {
    let closed: RedisServer;
    let closedPerSecond: RedisServer;
    beforeAll(async () => {
      closed = await startRedis(binary, ["--requirepass", "password123"]);
      closedPerSecond = await startRedis(binary, ["--requirepass", "password123"]);
      closing.push(
        () => closed.close(),
        () => closedPerSecond.close(),
      );
    });
    const auth = (): Environment => ({ REDIS_URL: `localhost:${closed.port}`, REDIS_AUTH: "password123" });
    const authPerSecond = (): Environment => ({
      ...perSecond(closedPerSecond.port),
      REDIS_PERSECOND_AUTH: "password123",
    });

    test.each<[string, () => Environment]>([
      ["WithoutPerSecondRedisAuth", auth],
      ["WithPerSecondRedisAuth", () => ({ ...auth(), ...authPerSecond() })],
      ["WithoutPerSecondRedisAuthWithLocalCache", () => ({ ...auth(), ...cached })],
      ["WithPerSecondRedisAuthWithLocalCache", () => ({ ...auth(), ...authPerSecond(), ...cached })],
    ])("TestBasicAuthConfig/%s", async (_, env) => {
      await basic(env());
    });
  });

  describe("with clusters", () => {
    const urls: string[] = [];
    beforeAll(async () => {
      for (let i = 0; i < 2; i++) {
        const nodes = await startRedisCluster(binary);
        for (const node of nodes) await node.command("CONFIG", "SET", "requirepass", "password123");
        urls.push(nodes.map(({ port }) => `127.0.0.1:${port}`).join(","));
        closing.push(...nodes.map((node) => () => node.close()));
      }
    });
    const cluster = (env: Environment = {}): Environment => ({
      REDIS_TYPE: "CLUSTER",
      REDIS_URL: urls[0] ?? "",
      REDIS_AUTH: "password123",
      ...env,
    });
    const clusterPerSecond = (): Environment => ({
      REDIS_PERSECOND: "true",
      REDIS_PERSECOND_TYPE: "CLUSTER",
      REDIS_PERSECOND_URL: urls[1] ?? "",
      REDIS_PERSECOND_AUTH: "password123",
    });

    test.each<[string, () => Environment]>([
      ["WithoutPerSecondRedisAuth", () => cluster()],
      ["WithPerSecondRedisAuth", () => cluster(clusterPerSecond())],
      ["WithoutPerSecondRedisAuthWithLocalCache", () => cluster(cached)],
      ["WithPerSecondRedisAuthWithLocalCache", () => cluster({ ...clusterPerSecond(), ...cached })],
    ])("TestBasicAuthConfigWithRedisCluster/%s", async (_, env) => {
      await basic(env());
    });
  });

  describe("with sentinels", () => {
    const urls: string[] = [];
    beforeAll(async () => {
      for (const name of ["mymaster", "mymasterpersecond"]) {
        const auth = ["--requirepass", "password123", "--masterauth", "password123"];
        const master = await startRedis(binary, auth);
        const config = join(folder, `${name}.conf`);
        const lines = [`monitor ${name} 127.0.0.1 ${master.port} 1`, `auth-pass ${name} password123`];
        await writeFile(config, lines.map((line) => `sentinel ${line}\n`).join(""));
        const sentinel = await startRedis(binary, ["--sentinel"], config);
        urls.push(`${name},127.0.0.1:${sentinel.port}`);
        closing.push(
          () => master.close(),
          () => sentinel.close(),
        );
      }
    });
    const sentinel = (env: Environment = {}): Environment => ({
      REDIS_TYPE: "SENTINEL",
      REDIS_URL: urls[0] ?? "",
      REDIS_AUTH: "password123",
      ...env,
    });
    const sentinelPerSecond = (): Environment => ({
      REDIS_PERSECOND: "true",
      REDIS_PERSECOND_TYPE: "SENTINEL",
      REDIS_PERSECOND_URL: urls[1] ?? "",
      REDIS_PERSECOND_AUTH: "password123",
    });

    test.each<[string, () => Environment]>([
      ["WithoutPerSecondRedisAuth", () => sentinel()],
      ["WithPerSecondRedisAuth", () => sentinel(sentinelPerSecond())],
      ["WithoutPerSecondRedisAuthWithLocalCache", () => sentinel(cached)],
      ["WithPerSecondRedisAuthWithLocalCache", () => sentinel({ ...sentinelPerSecond(), ...cached })],
    ])("TestBasicAuthConfigWithRedisSentinel/%s", async (_, env) => {
      await basic(env());
    });
  });

  test("TestBasicReloadConfig/BasicWithoutWatchRoot", async () => {
    await basic(redis({ RUNTIME_WATCH_ROOT: "false" }));
  });

  test("TestBasicReloadConfig/ReloadWithoutWatchRoot", async () => {
    const file = join(root, "ratelimit", "config", "reload.yaml");
    const service = await start(redis({ RUNTIME_WATCH_ROOT: "false" }));
    await reload(
      service,
      () => writeFile(file, reloadFile),
      () => rm(file),
    );
  });

  test("TestXdsProviderBasicConfigReload/ReloadConfigWithXdsServer", async () => {
    const { env, send } = await startXds();
    const descriptors: RateLimitConfig["descriptors"] = [
      { key: "key1", rateLimit: { unit: "SECOND", requestsPerUnit: 50 } },
      { key: "block", rateLimit: { unit: "SECOND", requestsPerUnit: 0 } },
    ];
    await reload(
      await start(redis(env)),
      () => send("2", { name: "reload", domain: "reload", descriptors }),
      () => send("3"),
    );
  });

  test("TestShareThreshold/WithoutPerSecondRedis", async () => {
    const { client } = await start(redis());
    const send = (entry: string) =>
      client.send({ domain: "share-threshold-test", descriptors: [descriptor(entry)], hitsAddend: 1 });
    for (let i = 0; i < 10; i++) expect((await send("files=files/a.pdf")).overallCode).toBe("OK");
    shown((await send("files=files/b.csv")).statuses[0], "HOUR", 10, "OVER_LIMIT", 0);
    for (let i = 0; i < 10; i++) {
      shown((await send(`files_no_share=files_no_share/${i}`)).statuses[0], "HOUR", 10, "OK", 9);
    }
  });
});

describeWith(["memcached"], "with memcached", (paths) => {
  const servers: MemcachedServer[] = [];
  beforeAll(async () => {
    for (let i = 0; i < 2; i++) servers.push(await startMemcached(paths.memcached));
  });
  afterAll(() => Promise.all(servers.map((server) => server.kill())));

  test.each<[string, number, Environment]>([
    ["TestBasicConfigMemcache/Memcache", 1, {}],
    ["TestBasicConfigMemcache/MemcacheWithLocalCache", 1, cached],
    ["TestBasicConfigMemcache/MemcacheWithPrefix", 1, { CACHE_KEY_PREFIX: "prefix:" }],
    ["TestConfigMemcacheWithMaxIdleConns/MemcacheWithDefaultMaxIdleConns", 1, {}],
    ["TestConfigMemcacheWithMaxIdleConns/MemcacheWithSpecifiedMaxIdleConns", 1, { MEMCACHE_MAX_IDLE_CONNS: "100" }],
    ["TestMultiNodeMemcache/MemcacheMultipleNodes", 2, {}],
  ])("%s", async (_, number, env) => {
    const addresses = servers.slice(0, number).map(({ address }) => address);
    await basic({ BACKEND_TYPE: "memcache", MEMCACHE_HOST_PORT: addresses.join(","), ...env });
  });
});
