import { renderLogFilter } from "@gatewayproxy/runtime/log-filter";
import { differingDefaults } from "./settings/defaults.ts";
import { readFileSync } from "node:fs";
import { renderMarkdownTable } from "@gatewayproxy/runtime/markdown-table";
import { renderProblem } from "@gatewayproxy/runtime/problem";
import { renderSettingsTable } from "@gatewayproxy/runtime/settings-text";
import { withSection } from "@gatewayproxy/runtime/testing/doc-section";
import { describe, expect, test } from "vitest";
import { readServiceSettings, serviceSettings } from "./settings.ts";
import { rejectedSettings, settingsWithoutEffect } from "./settings/other-settings.ts";

type Env = Readonly<Record<string, string>>;

async function settingsOf(env: Env, argv: readonly string[] = []) {
  const read = await readServiceSettings({ argv, env });
  if (!read.ok) throw new Error(JSON.stringify(read));
  return read.value;
}

async function problemsOf(env: Env): Promise<readonly string[]> {
  const read = await readServiceSettings({ argv: [], env });
  return read.ok ? [] : read.problems.map(renderProblem);
}

describe("with no setting at all", () => {
  test("counters are in memory and the headers are Envoy's", async () => {
    const { store, headers, notices } = await settingsOf({});
    expect(store).toEqual({ kind: "memory", maxCounters: 262_144 });
    expect(headers).toEqual({ kind: "envoy" });
    expect(notices).toEqual([]);
  });

  test("the ports are the reference's, and the debug server is for this machine only", async () => {
    const { values } = await settingsOf({});
    expect(values).toMatchObject({
      port: 8080,
      grpcPort: 8081,
      debugPort: 6070,
      debugHost: "127.0.0.1",
      host: "0.0.0.0",
    });
  });
});

describe("Redis", () => {
  test("is used where REDIS_URL names it, with the reference's defaults", async () => {
    const { store } = await settingsOf({ REDIS_URL: "redis:6379" });
    expect(store).toEqual({
      kind: "redis",
      redis: {
        topology: "single",
        addresses: [{ kind: "tcp", host: "redis", port: 6379 }],
        timeoutMs: 10_000,
        startup: { initialIntervalMs: 1_000, maxIntervalMs: 30_000, maxElapsedMs: 0 },
      },
      jitterMaxSeconds: 300,
      failureMode: "error",
      maxCounters: 262_144,
    });
  });

  test.each<[string, Env, unknown]>([
    ["a host alone", { REDIS_URL: "redis" }, { kind: "tcp", host: "redis", port: 6379 }],
    ["an IPv6 address", { REDIS_URL: "[::1]:7000" }, { kind: "tcp", host: "::1", port: 7000 }],
    ["a path", { REDIS_URL: "/run/redis.sock" }, { kind: "unix", path: "/run/redis.sock" }],
    [
      "a relative path that is said to be one",
      { REDIS_URL: "redis.sock", REDIS_SOCKET_TYPE: "unix" },
      { kind: "unix", path: "redis.sock" },
    ],
    ["a URL", { REDIS_URL: "redis://localhost:7000/" }, { kind: "tcp", host: "localhost", port: 7000 }],
    [
      "a URL with a password",
      { REDIS_URL: "redis://:p%40ss@localhost" },
      { kind: "tcp", host: "localhost", port: 6379 },
    ],
  ])("is reached by %s", async (_, env, address) => {
    expect((await settingsOf(env)).store).toMatchObject({ redis: { addresses: [address] } });
  });

  test.each<[string, Env, unknown]>([
    ["a password", { REDIS_AUTH: "secret" }, { password: "secret" }],
    ["user and password", { REDIS_AUTH: "user:se:cret" }, { username: "user", password: "se:cret" }],
    ["the URL", { REDIS_URL: "redis://user:p%40ss@h" }, { username: "user", password: "p@ss" }],
    ["the URL's query", { REDIS_URL: "redis://h/?username=u&password=p" }, { username: "u", password: "p" }],
    ["a URL of a cluster", { REDIS_TYPE: "CLUSTER", REDIS_URL: "redis://:p@a:1,redis://:p@b:2" }, { password: "p" }],
    ["both, of which the setting wins", { REDIS_URL: "redis://u:p@h", REDIS_AUTH: "q" }, { password: "q" }],
  ])("is authenticated to by %s", async (_, env, auth) => {
    expect((await settingsOf({ REDIS_URL: "h", ...env })).store).toMatchObject({ redis: { auth } });
  });

  test.each<[string, Env, number | undefined]>([
    ["none where none is named", { REDIS_URL: "redis://h:6379/" }, undefined],
    ["that of the URL", { REDIS_URL: "redis://h:6379/3" }, 3],
    ["that of the URL's query", { REDIS_URL: "rediss://h?db=12" }, 12],
    ["the first of a cluster", { REDIS_TYPE: "CLUSTER", REDIS_URL: "redis://a:1/0,redis://b:2" }, 0],
  ])("uses a database: %s", async (_, env, database) => {
    const { store } = await settingsOf(env);
    expect(store.kind === "redis" && store.redis.database).toBe(database);
  });

  test("takes a password in the URL of a sentinel for the sentinels", async () => {
    const env = { REDIS_TYPE: "SENTINEL", REDIS_URL: "mymaster,redis://:s@a:26379", REDIS_AUTH: "r" };
    expect((await settingsOf(env)).store).toMatchObject({
      redis: { auth: { password: "r" }, sentinelAuth: { password: "s" }, addresses: [{ host: "a", port: 26379 }] },
    });
  });

  test("uses TLS by its setting, or by its URL", async () => {
    const tls = { authoritiesFile: "/ca.pem", skipsHostnameVerification: true };
    const env = { REDIS_TLS_CACERT: "/ca.pem", REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: "true" };
    expect((await settingsOf({ REDIS_URL: "h", REDIS_TLS: "true", ...env })).store).toMatchObject({ redis: { tls } });
    expect((await settingsOf({ REDIS_URL: "rediss://h", ...env })).store).toMatchObject({ redis: { tls } });
  });

  test("may be sentinels, of which the first part of the address names the master", async () => {
    const env = { REDIS_TYPE: "sentinel", REDIS_URL: "mymaster,a:26379,b:26380", REDIS_SENTINEL_AUTH: "s" };
    expect((await settingsOf(env)).store).toMatchObject({
      redis: {
        topology: "sentinel",
        masterName: "mymaster",
        addresses: [
          { host: "a", port: 26379 },
          { host: "b", port: 26380 },
        ],
        sentinelAuth: { password: "s" },
      },
    });
  });

  test("may be a cluster, with one of its own for one-second windows", async () => {
    const env = {
      REDIS_TYPE: "CLUSTER",
      REDIS_URL: "a:1,b:2",
      REDIS_PERSECOND: "true",
      REDIS_PERSECOND_URL: "c:3",
      REDIS_PERSECOND_TIMEOUT: "100ms",
    };
    expect((await settingsOf(env)).store).toMatchObject({
      redis: { topology: "cluster", addresses: [{ host: "a" }, { host: "b" }], timeoutMs: 10_000 },
      perSecond: { topology: "single", addresses: [{ host: "c" }], timeoutMs: 100 },
    });
  });

  test.each<[string, Env, string]>([
    ["no address", { BACKEND_TYPE: "redis" }, "REDIS_URL: missing; set it to the address of Redis"],
    [
      "a second one without address",
      { REDIS_URL: "a", REDIS_PERSECOND: "true" },
      "REDIS_PERSECOND_URL: missing; set it to the address of Redis",
    ],
    [
      "what is no address, without repeating it",
      { REDIS_URL: "redis://user:secret@host:99999" },
      "REDIS_URL: contains an address that is not host:port, a socket's path or redis://user:password@host:port/database",
    ],
    [
      "a database that is no number",
      { REDIS_URL: "redis://h/limits" },
      "REDIS_URL: names a database that is not a number, as in redis://host:6379/1",
    ],
    [
      "a second database of a cluster",
      { REDIS_TYPE: "CLUSTER", REDIS_URL: "redis://h/1" },
      "REDIS_URL: names a database that is not 0 with REDIS_TYPE=CLUSTER",
    ],
    [
      "a URL that cannot be read, whose password would be lost",
      { REDIS_URL: "redis://:pa#ss@h" },
      "REDIS_URL: contains an address that is not host:port, a socket's path or redis://user:password@host:port/database",
    ],
    [
      "a socket for a cluster",
      { REDIS_URL: "/redis.sock", REDIS_TYPE: "CLUSTER" },
      "REDIS_URL: contains an address that is not host:port",
    ],
  ])("is rejected with %s", async (_, env, problem) => {
    expect((await problemsOf(env))[0]).toBe(problem);
  });
});

describe("response headers", () => {
  test.each<[string, Env, unknown]>([
    [
      "the reference's when it is set to send them",
      { LIMIT_RESPONSE_HEADERS_ENABLED: "true", LIMIT_RESET_HEADER: "X-Reset" },
      { kind: "ratelimit", limit: "RateLimit-Limit", remaining: "RateLimit-Remaining", reset: "X-Reset" },
    ],
    ["none when it is set not to", { LIMIT_RESPONSE_HEADERS_ENABLED: "false" }, { kind: "off" }],
    [
      "what our own setting says before that",
      { LIMIT_RESPONSE_HEADERS_ENABLED: "true", RESPONSE_HEADERS: "off" },
      { kind: "off" },
    ],
  ])("are %s", async (_, env, headers) => {
    expect((await settingsOf(env)).headers).toEqual(headers);
  });
});

describe("the folder of limit files", () => {
  test.each<[string, Env, readonly string[], { directory: string; keyRoot: string }]>([
    [
      "is where the reference looks",
      {},
      [],
      { directory: "/srv/runtime_data/current/config", keyRoot: "/srv/runtime_data/current" },
    ],
    [
      "is put together from three settings",
      {
        RUNTIME_ROOT: "/data",
        RUNTIME_SUBDIRECTORY: "ratelimit",
        RUNTIME_APPDIRECTORY: "limits",
        RUNTIME_WATCH_ROOT: "false",
      },
      [],
      { directory: "/data/ratelimit/limits", keyRoot: "/data/ratelimit/limits" },
    ],
    ["is that of --config-dir", {}, ["--config-dir", "/limits"], { directory: "/limits", keyRoot: "/limits" }],
    [
      "is that of RUNTIME_ROOT before --config-dir",
      { RUNTIME_ROOT: "/data" },
      ["--config-dir", "/limits"],
      { directory: "/data/config", keyRoot: "/data" },
    ],
  ])("%s", async (_, env, argv, layout) => {
    expect((await settingsOf(env, argv)).runtime).toEqual({ ...layout, ignoresDotFiles: false });
  });
});

describe("what this service cannot do", () => {
  test.each([
    ["REDIS_POOL_ON_EMPTY_BEHAVIOR", "CREATE"],
    ["REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", "error"],
  ])("is rejected: %s=%s", async (name, value) => {
    const problem =
      "there is no pool of connections that could be empty; only WAIT is accepted, as in envoyproxy/ratelimit";
    expect(await problemsOf({ [name]: value })).toEqual([`${name}: ${problem}`]);
    expect((await settingsOf({ [name]: "WAIT" })).notices).toEqual([
      `${name} has no effect: there is no pool of connections`,
    ]);
  });

  test("is reported where it has no effect", async () => {
    const env = {
      REDIS_POOL_SIZE: "20",
      MEMCACHE_MAX_IDLE_CONNS: "4",
      USE_DOG_STATSD: "false",
    };
    expect((await settingsOf(env)).notices).toEqual([
      "MEMCACHE_MAX_IDLE_CONNS has no effect: one connection to each memcached carries all commands",
      "REDIS_POOL_SIZE has no effect: one connection carries all commands",
    ]);
  });
});

describe("memcached", () => {
  const memcache = { BACKEND_TYPE: "memcache" };

  test("is reached at a list of servers, and passes calls while it is away, as with the reference", async () => {
    expect((await settingsOf({ ...memcache, MEMCACHE_HOST_PORT: "a:1,[::1]:2" })).store).toEqual({
      kind: "memcache",
      memcache: {
        servers: {
          kind: "list",
          addresses: [
            { host: "a", port: 1 },
            { host: "::1", port: 2 },
          ],
        },
        timeoutMs: 500,
      },
      jitterMaxSeconds: 300,
      failureMode: "open",
      maxCounters: 262_144,
    });
  });

  test("is reached by an SRV record and over TLS", async () => {
    const env = {
      ...memcache,
      ...{ MEMCACHE_SRV: "_memcache._tcp.example.org", MEMCACHE_SRV_REFRESH: "5s", FAILURE_MODE: "error" },
      ...{
        MEMCACHE_TLS: "true",
        MEMCACHE_TLS_CACERT: "/ca",
        MEMCACHE_TLS_CLIENT_CERT: "/c",
        MEMCACHE_TLS_CLIENT_KEY: "/k",
      },
      MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION: "true",
    };
    expect((await settingsOf(env)).store).toMatchObject({
      memcache: {
        servers: { kind: "srv", name: "_memcache._tcp.example.org", refreshMs: 5_000 },
        tls: { authoritiesFile: "/ca", certificateFile: "/c", keyFile: "/k", skipsHostnameVerification: true },
      },
      failureMode: "error",
    });
  });

  test.each<[string, Env, string]>([
    [
      "without a server",
      {},
      "MEMCACHE_HOST_PORT: missing; set it to the addresses of memcached, or MEMCACHE_SRV to the name of an SRV record",
    ],
    ["with a host alone", { MEMCACHE_HOST_PORT: "a" }, 'MEMCACHE_HOST_PORT: "a" is not a list of host:port'],
    [
      "with two kinds of addresses",
      { MEMCACHE_HOST_PORT: "a:1", MEMCACHE_SRV: "_m._tcp.x" },
      "MEMCACHE_SRV: is set beside MEMCACHE_HOST_PORT; set one of them",
    ],
    [
      "with a name that is no SRV record's",
      { MEMCACHE_SRV: "example.org" },
      'MEMCACHE_SRV: "example.org" is not _service._protocol.name, as in _memcache._tcp.example.org',
    ],
  ])("is rejected %s", async (_, env, problem) => {
    expect(await problemsOf({ ...memcache, ...env })).toEqual([problem]);
  });
});

describe("DogStatsD", () => {
  const dog = { USE_DOG_STATSD: "true" };

  test("takes the place of statsd", async () => {
    expect((await settingsOf({ ...dog, STATSD_HOST: "h" })).stats.sink).toBe("dogstatsd");
    expect((await settingsOf({ STATSD_HOST: "h" })).stats.sink).toBe("statsd");
    expect((await settingsOf({})).stats.sink).toBeUndefined();
  });

  test("has rules that are read from variables of their names", async () => {
    const env = {
      ...dog,
      USE_DOG_STATSD_MOGRIFIERS: "hits,all",
      DOG_STATSD_MOGRIFIER_HITS_PATTERN: "^(.*)\\.total_hits$",
      DOG_STATSD_MOGRIFIER_HITS_NAME: "hits",
      DOG_STATSD_MOGRIFIER_HITS_TAGS: "where:$1,kind:total",
      DOG_STATSD_MOGRIFIER_ALL_PATTERN: ".",
      DOG_STATSD_MOGRIFIER_ALL_NAME: "other",
    };
    expect((await settingsOf(env)).stats.mogrifiers).toEqual([
      {
        pattern: "^(.*)\\.total_hits$",
        name: "hits",
        tags: [
          ["where", "$1"],
          ["kind", "total"],
        ],
      },
      { pattern: ".", name: "other", tags: [] },
    ]);
  });

  test.each<[string, Env, RegExp]>([
    ["beside statsd", { USE_STATSD: "true" }, /^USE_DOG_STATSD: cannot be used together with USE_STATSD=true/],
    ["beside Prometheus", { USE_PROMETHEUS: "true" }, /^USE_DOG_STATSD: cannot be used together with USE_PROMETHEUS/],
    [
      "with a rule that is not there",
      { USE_DOG_STATSD_MOGRIFIERS: "x" },
      /^DOG_STATSD_MOGRIFIER_X_PATTERN: missing; USE_DOG_STATSD_MOGRIFIERS names x$/,
    ],
    [
      "with a pattern that is none",
      { USE_DOG_STATSD_MOGRIFIERS: "x", DOG_STATSD_MOGRIFIER_X_PATTERN: "(", DOG_STATSD_MOGRIFIER_X_NAME: "n" },
      /^DOG_STATSD_MOGRIFIER_X_PATTERN: .*\(/,
    ],
  ])("is rejected %s", async (_, env, problem) => {
    expect((await problemsOf({ ...dog, ...env }))[0]).toMatch(problem);
  });
});

describe("values are read as Go reads them", () => {
  test.each([
    ["24h", 86_400_000],
    ["1h30m", 5_400_000],
    ["150us", 0.15],
    ["0", 0],
    ["1.5s", 1_500],
    [".5s", 500],
    ["+5s", 5_000],
    ["1.m", 60_000],
    ["2μs", 0.002],
  ])("a duration %s", async (text, ms) => {
    expect((await settingsOf({ REDIS_TIMEOUT: text })).values.redisTimeout).toBeCloseTo(ms, 9);
  });

  test.each([
    ["1_000", 1_000],
    ["0x400", 1_024],
    ["0b101", 5],
    ["0o17", 15],
    ["010", 8],
    ["+7", 7],
    ["0", 0],
  ])("a whole number %s", async (text, value) => {
    expect((await settingsOf({ PORT: text })).values.port).toBe(value);
  });

  test.each(["-1", "08", "0x", "1__0", "_1", "1_", "1e3", "ff", "1.0", " 1"])("no whole number %s", async (text) => {
    expect(await problemsOf({ PORT: text })).toEqual([
      `PORT: ${JSON.stringify(text)} is not a whole number from 0 to 65535`,
    ]);
  });

  test.each([
    [".8", 0.8],
    ["8e-1", 0.8],
    ["+1.", 1],
  ])("a number %s", async (text, value) => {
    expect((await settingsOf({ NEAR_LIMIT_RATIO: text })).values.nearLimitRatio).toBe(value);
  });

  test("bounds that the reference does not have", async () => {
    const { values, store } = await settingsOf({
      EXPIRATION_JITTER_MAX_SECONDS: "604800",
      XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: "0",
      REDIS_URL: "h",
      REDIS_SOCKET_TYPE: "tcp4",
    });
    expect(values).toMatchObject({ expirationJitterMaxSeconds: 604_800, xdsMaxMessageBytes: 0 });
    expect(store).toMatchObject({ redis: { addresses: [{ kind: "tcp", host: "h", port: 6379, family: 4 }] } });
  });

  test.each(["1", "t", "T", "TRUE", "true", "True"])("a flag %s", async (text) => {
    expect((await settingsOf({ SHADOW_MODE: text })).values.shadowMode).toBe(true);
  });

  test("a list of pairs", async () => {
    const { values } = await settingsOf({ EXTRA_TAGS: "a:1,b:x=y", CONFIG_GRPC_XDS_NODE_METADATA: "k=v" });
    expect(values.extraTags).toEqual(
      new Map([
        ["a", "1"],
        ["b", "x=y"],
      ]),
    );
    expect(values.xdsNodeMetadata).toEqual(new Map([["k", "v"]]));
  });

  test("and invalid values are reported together, with the accepted ones", async () => {
    expect(await problemsOf({ PORT: "http", REDIS_TIMEOUT: "soon", SHADOW_MODE: "maybe" })).toEqual([
      'PORT: "http" is not a whole number from 0 to 65535',
      'SHADOW_MODE: "maybe" is not true or false',
      'REDIS_TIMEOUT: "soon" is not a duration such as 150us, 500ms, 10s or 1h30m',
    ]);
  });
});

test("docs/ratelimit-service.md shows every setting, those without effect, and those that are rejected", async () => {
  const page = new URL("../../docs/ratelimit-service.md", import.meta.url).pathname;
  const others = renderMarkdownTable([
    ["environment variable", "here", "why"],
    ...Object.entries(rejectedSettings).map(([name, { message }]) => [`\`${name}\``, "rejected", message]),
    ...Object.entries(settingsWithoutEffect).map(([name, reason]) => [`\`${name}\``, "no effect", reason]),
  ]);
  const withSettings = withSection(readFileSync(page, "utf8"), "settings", renderSettingsTable(serviceSettings));
  const withOthers = withSection(withSettings, "other-settings", others);
  const defaults = renderMarkdownTable([
    ["environment variable", "its own command, the chart", "`/bin/ratelimit`", "effect"],
    ...Object.entries(differingDefaults).map(([name, { ours, reference, effect }]) => [
      ...[`\`${name}\``, ours, `\`${reference}\``, effect],
    ]),
  ]);
  await expect(withSection(withOthers, "defaults", defaults)).toMatchFileSnapshot(page);
});

describe("started by the reference's name", () => {
  const read = (env: Env) => readServiceSettings({ argv: [], env }, "reference");
  const values = async (env: Env) => {
    const settings = await read(env);
    if (!settings.ok) throw new Error(JSON.stringify(settings));
    return settings.value;
  };

  test("the service has the reference's default of every variable in which ours differs", async () => {
    const settings = await values({});
    expect(settings.headers).toEqual({ kind: "off" });
    expect(settings.store).toMatchObject({
      kind: "redis",
      redis: { addresses: [{ kind: "unix", path: "/var/run/nutcracker/ratelimit.sock" }] },
    });
    expect(settings.values).toMatchObject({
      redisHealthCheckActiveConnection: false,
      useStatsd: true,
      debugHost: "0.0.0.0",
      logFormat: "text",
    });
    expect(renderLogFilter(settings.values.logLevel)).toBe("warn");
    expect(settings.notices).toEqual([]);
  });

  test("each of them is a setting, and its default is one that the setting takes", async () => {
    const known = Object.values(serviceSettings).map(({ env }) => env as string);
    for (const [name, { reference }] of Object.entries(differingDefaults)) {
      expect(known).toContain(name);
      expect(await read({ REDIS_PERSECOND: "true", [name]: reference })).toMatchObject({ ok: true });
    }
  });

  test("what is set means the same in both", async () => {
    const env = Object.fromEntries(Object.entries(differingDefaults).map(([name, { reference }]) => [name, reference]));
    const ours = await settingsOf(env);
    expect({ ...ours, notices: [], defaults: "reference" }).toEqual(await values({}));
    expect((await values({ RESPONSE_HEADERS: "envoy" })).headers).toEqual({ kind: "envoy" });
    expect((await values({ LIMIT_RESPONSE_HEADERS_ENABLED: "true" })).headers.kind).toBe("ratelimit");
    expect((await values({ BACKEND_TYPE: "memory" })).store.kind).toBe("memory");
  });
});
