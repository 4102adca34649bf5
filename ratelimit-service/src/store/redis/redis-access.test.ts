import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { TestAuthority } from "../../../../test/support/certificates.ts";
import { describeWith } from "../../../../test/support/describe-with.ts";
import { freePort } from "../../../../test/support/free-port.ts";
import { type RedisServer, startRedis } from "../../../../test/support/redis-server.ts";
import type { RedisOptions } from "./redis-options.ts";
import type { RedisStore } from "./redis-store.ts";
import { openTestStore, testRedisOptions } from "./testing/open-test-store.ts";

let folder: string;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "redis-access-"));
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});
afterAll(() => rm(folder, { recursive: true }));

const step = { key: "k", hits: 1, windowSeconds: 60, windowEndSeconds: 2 ** 31 };

async function open(options: RedisOptions): Promise<RedisStore> {
  const store = await openTestStore(options);
  closing.push(() => store.close());
  return store;
}

/** Of an attempt to open that is to fail: the reason. */
async function rejection(options: RedisOptions): Promise<string> {
  const startup = { initialIntervalMs: 1, maxIntervalMs: 1, maxElapsedMs: 1 };
  return openTestStore({ ...options, startup }).then(
    () => "opened",
    (error: unknown) => String(error),
  );
}

describeWith(["redis-server"], "a Redis behind a socket or a password", (program) => {
  let redis: RedisServer;
  let path: string;

  beforeAll(async () => {
    path = join(folder, "redis.sock");
    redis = await startRedis(program["redis-server"], ["--unixsocket", path]);
    await redis.command("ACL", "SETUSER", "limits", "on", ">secret", "~*", "+@all");
  });
  afterAll(() => redis.close());

  test("is reached by the path of its socket", async () => {
    const store = await open(testRedisOptions([], { addresses: [{ kind: "unix", path }] }));
    expect(await store.apply([{ ...step, key: "socket" }])).toEqual([1]);
  });

  test("is entered by user and password", async () => {
    const options = testRedisOptions([redis.port]);
    const store = await open({ ...options, auth: { username: "limits", password: "secret" } });
    expect(await store.apply([{ ...step, key: "acl" }])).toEqual([1]);
    expect(await rejection({ ...options, auth: { username: "limits", password: "wrong" } })).toMatch(/WRONGPASS/);
  });

  test("selects the configured database, and again after a reconnect", async () => {
    const store = await open(testRedisOptions([redis.port], { database: 3 }));
    expect(await store.apply([{ ...step, key: "database" }])).toEqual([1]);
    await redis.command("CLIENT", "KILL", "TYPE", "normal");
    const check = () => Promise.resolve(store.apply([{ ...step, key: "database", hits: 0 }])).catch(() => "away");
    await expect.poll(check).toEqual([1]);
    expect(String(await redis.command("INFO", "keyspace"))).toMatch(/db3:keys=1/);
  });

  test("is entered by the password of the default user", async () => {
    const closed = await startRedis(program["redis-server"], ["--requirepass", "open sesame"]);
    closing.push(() => closed.close());
    const store = await open(testRedisOptions([closed.port], { auth: { password: "open sesame" } }));
    expect(await store.apply([step])).toEqual([1]);
  });
});

describeWith(["redis-server", "openssl"], "a Redis behind TLS", (program) => {
  let port: number;
  let authority: TestAuthority;
  let redis: RedisServer | undefined;

  beforeAll(async () => {
    authority = new TestAuthority(program.openssl, folder, "authority");
    const server = authority.issue("server", "DNS:elsewhere.test");
    port = await freePort();
    const files = ["--tls-cert-file", server.certFile, "--tls-key-file", server.keyFile];
    const trust = ["--tls-ca-cert-file", authority.authority.certFile, "--tls-auth-clients", "yes"];
    redis = await startRedis(program["redis-server"], ["--tls-port", String(port), ...files, ...trust]);
  });
  afterAll(() => redis?.close());

  function tlsOptions(skipsHostnameVerification: boolean): RedisOptions {
    const client = authority.issue("client");
    const authoritiesFile = authority.authority.certFile;
    const tls = {
      certificateFile: client.certFile,
      keyFile: client.keyFile,
      authoritiesFile,
      skipsHostnameVerification,
    };
    return testRedisOptions([port], { tls });
  }

  test("is spoken to with a client certificate, its own checked against the authority", async () => {
    const store = await open(tlsOptions(true));
    expect(await store.apply([step])).toEqual([1]);
  });

  test("is rejected when its certificate is for another host", async () => {
    expect(await rejection(tlsOptions(false))).toMatch(/does not match certificate's altnames/);
  });

  test("is rejected when another authority signed its certificate", async () => {
    const other = new TestAuthority(program.openssl, folder, "other");
    const tls = { authoritiesFile: other.authority.certFile, skipsHostnameVerification: true };
    expect(await rejection(testRedisOptions([port], { tls }))).toMatch(/certificate/);
  });
});

describeWith(["redis-server"], "a Redis that sentinels name", (program) => {
  test("is found by them, and counts", async () => {
    const master = await startRedis(program["redis-server"]);
    closing.push(() => master.close());
    const config = join(folder, "sentinel.conf");
    await writeFile(
      config,
      `sentinel monitor mymaster 127.0.0.1 ${master.port} 1\nsentinel down-after-milliseconds mymaster 5000\n`,
    );
    const sentinel = await startRedis(program["redis-server"], ["--sentinel"], config);
    closing.push(() => sentinel.close());
    const options = testRedisOptions([sentinel.port], { topology: "sentinel", masterName: "mymaster" });
    const store = await open(options);
    const calls = Array.from({ length: 50 }, async () => store.apply([step, { ...step, key: "other", hits: 2 }]));
    expect((await Promise.all(calls)).at(-1)).toEqual([50, 100]);
    expect(await master.command("GET", "k")).toBe("50");
    expect(store.isHealthy()).toBe(true);
  });

  test("is followed when another becomes master", { timeout: 60_000 }, async () => {
    const master = await startRedis(program["redis-server"]);
    const replicaOf = ["--replicaof", "127.0.0.1", String(master.port)];
    const replica = await startRedis(program["redis-server"], replicaOf);
    closing.push(
      () => master.close(),
      () => replica.close(),
    );
    const config = join(folder, "failover.conf");
    const monitor = `sentinel monitor mymaster 127.0.0.1 ${master.port} 1\n`;
    const speed = "sentinel down-after-milliseconds mymaster 300\nsentinel failover-timeout mymaster 2000\n";
    await writeFile(config, monitor + speed);
    const sentinel = await startRedis(program["redis-server"], ["--sentinel"], config);
    closing.push(() => sentinel.close());
    const sees = async (what: string) =>
      String(await sentinel.command("SENTINEL", "MASTER", "mymaster")).includes(what);
    while (!(await sees("num-slaves,1"))) await setTimeout(50);
    while (!String(await replica.command("INFO", "replication")).includes("master_link_status:up")) {
      await setTimeout(50);
    }
    const store = await open(
      testRedisOptions([sentinel.port], { topology: "sentinel", masterName: "mymaster", timeoutMs: 300 }),
    );
    expect(await store.apply([step])).toEqual([1]);
    while ((await replica.command("GET", "k")) !== "1") await setTimeout(20);
    await master.kill();
    for (;;) {
      const [outcome] = await Promise.allSettled([Promise.resolve(store.apply([step]))]);
      if (outcome.status === "fulfilled") break;
      await setTimeout(50);
    }
    expect(Number(await replica.command("GET", "k"))).toBeGreaterThanOrEqual(2);
  });
});
