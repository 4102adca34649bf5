/** Counters in memcached: the bundled service and the reference share counters, and outages have the same effect. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { type MemcachedServer, startMemcached } from "../support/memcached-server.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { type Environment, startRateLimitService, startReference } from "../support/ratelimit-process.ts";

const limits = `domain: d
descriptors:
  - key: k
    rate_limit: {unit: year, requests_per_unit: 5}
  - key: m
    rate_limit: {unit: day, requests_per_unit: 5}
`;

/** The details of a failed call. */
const away: unknown = expect.stringContaining("memcached: ");

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "memcached-"));
  await mkdir(join(folder, "config"));
  await writeFile(join(folder, "config", "limits.yaml"), limits);
});
afterAll(() => rm(folder, { recursive: true }));

async function startServer(binary: string, args?: readonly string[]): Promise<MemcachedServer> {
  const server = await startMemcached(binary, args);
  onTestFinished(() => server.kill());
  return server;
}

function client(service: { readonly grpcPort: number; kill(): Promise<void> }) {
  onTestFinished(() => service.kill());
  const connected = connectRateLimit(service.grpcPort);
  onTestFinished(() => connected.close());
  return {
    ...connected,
    send: (key: string) => connected.send({ domain: "d", descriptors: [descriptor(key)] }),
    outcome: (key: string) => connected.outcome({ domain: "d", descriptors: [descriptor(key)] }),
  };
}

const memcache = (servers: readonly MemcachedServer[], env: Environment = {}): Environment => ({
  BACKEND_TYPE: "memcache",
  MEMCACHE_HOST_PORT: servers.map(({ address }) => address).join(","),
  EXPIRATION_JITTER_MAX_SECONDS: "0",
  ...env,
});

describeWith(["memcached", "ratelimit"], "beside the reference", (paths) => {
  test.each([1, 3])(
    "counts on the same keys of %i servers, with the same expiries",
    { timeout: 60_000 },
    async (number) => {
      const servers: MemcachedServer[] = [];
      for (let i = 0; i < number; i++) servers.push(await startServer(paths.memcached));
      const env = memcache(servers, { CACHE_KEY_PREFIX: "pre_", LOCAL_CACHE_SIZE_IN_BYTES: "0" });
      const ours = client(await startRateLimitService(join(folder, "config"), env));
      const reference = client(await startReference(paths.ratelimit, folder, env));
      const totals = async () => {
        const entries = (await Promise.all(servers.map((server) => server.entries()))).flatMap((each) => [...each]);
        return Object.fromEntries(entries.map(([key, { value }]) => [key.replace(/_\d+$/, ""), value]));
      };

      for (let i = 0; i < 5; i++) {
        expect((await ours.send(`m=${i}`)).statuses[0]).toMatchObject({ code: "OK", limitRemaining: 4 });
        expect((await reference.send(`m=${i}`)).statuses[0]).toMatchObject({ code: "OK", limitRemaining: 3 });
        // It counts after its response.
        await expect.poll(totals).toHaveProperty(`pre_d_m_${i}`, "2");
        expect((await ours.send(`m=${i}`)).statuses[0]).toMatchObject({ code: "OK", limitRemaining: 2 });
      }
      // The service that counted first set the expiry of the counter.
      await reference.send("m=x");
      // memcached lists a key some time after it was written.
      const keys = ["x", 0, 1, 2, 3, 4].map((key) => `pre_d_m_${key}`);
      await expect.poll(async () => Object.keys(await totals()).sort()).toEqual(keys.sort());
      const all = (await Promise.all(servers.map((server) => server.entries()))).flatMap((each) => [...each.values()]);
      for (const { secondsLeft } of all) {
        expect(secondsLeft).toBeGreaterThan(86_400 - 60);
        expect(secondsLeft).toBeLessThanOrEqual(86_400);
      }
    },
  );

  test("during an outage calls are allowed, as with the reference", async () => {
    const server = await startServer(paths.memcached);
    const env = memcache([server]);
    const ours = await startRateLimitService(join(folder, "config"), env);
    const reference = client(await startReference(paths.ratelimit, folder, env));
    const clients = [client(ours), reference];
    await server.kill();

    for (let i = 0; i < 7; i++) {
      for (const each of clients) {
        expect(await each.send("m=v")).toMatchObject({
          overallCode: "OK",
          statuses: [{ code: "OK", limitRemaining: 4 }],
        });
      }
    }
    expect((await fetch(`${ours.http}/healthcheck`)).status).toBe(200);
    const faults = ours.output.filter((line) => line.includes("store fails"));
    expect(faults).toHaveLength(1);
    expect(faults[0]).toContain(server.address);
  }, 60_000);
});

describeWith(["memcached", "openssl"], "memcached", (paths) => {
  test("counts are exact with every worker, and a year has its full length", async () => {
    const server = await startServer(paths.memcached);
    const service = await startRateLimitService(join(folder, "config"), memcache([server]), ["--workers", "2"]);
    const clients = [client(service), client(service), client(service)];
    const responses = await Promise.all(clients.flatMap(({ send }) => Array.from({ length: 10 }, () => send("k=v"))));

    expect(responses.filter(({ overallCode }) => overallCode === "OK")).toHaveLength(5);
    const [entry] = (await server.entries()).values();
    expect(entry?.value).toBe("30");
    expect(entry?.secondsLeft).toBeGreaterThan(364 * 86_400);
  });

  test.each(["error", "local"])("an outage with FAILURE_MODE=%s is as with Redis", async (mode) => {
    const server = await startServer(paths.memcached);
    const env = memcache([server], { FAILURE_MODE: mode });
    const { outcome } = client(await startRateLimitService(join(folder, "config"), env));
    await server.kill();
    const responses: unknown[] = [];
    for (let i = 0; i < 6; i++) responses.push(await outcome("m=v"));

    if (mode === "error") {
      for (const response of responses) expect(response).toMatchObject({ code: 2, details: away });
    } else {
      const codes = responses.map((response) => (response as { readonly overallCode: string }).overallCode);
      expect(codes).toEqual(["OK", "OK", "OK", "OK", "OK", "OVER_LIMIT"]);
    }
  });

  test("calls are counted in the metrics of the reference", async () => {
    const server = await startServer(paths.memcached);
    const env = memcache([server], { EXTRA_TAGS: "zone:a" });
    const service = await startRateLimitService(join(folder, "config"), env);
    const { send } = client(service);
    for (let i = 0; i < 3; i++) await send("m=v");

    const lines = (await (await fetch(`${service.debug}/stats`)).text()).split("\n");
    expect(lines.filter((line) => line.startsWith("ratelimit.memcache.") && !line.endsWith(": 0"))).toEqual([
      "ratelimit.memcache.add.__code=success.__zone=a: 1",
      "ratelimit.memcache.increment.__code=miss.__zone=a: 1",
      "ratelimit.memcache.increment.__code=success.__zone=a: 2",
      "ratelimit.memcache.keys_found.__zone=a: 2",
      "ratelimit.memcache.keys_requested.__zone=a: 3",
      "ratelimit.memcache.multiget.__code=success.__zone=a: 3",
    ]);
    const text = await (await fetch(`${service.debug}/metrics`)).text();
    expect(text).toContain('ratelimit_memcache_increment{code="miss",zone="a"} 1');
  });

  describe("over TLS", () => {
    const start = async (settings: (authority: TestAuthority, directory: string) => Environment) => {
      const directory = await mkdtemp(join(folder, "tls-"));
      const authority = new TestAuthority(paths.openssl, directory, "memcached authority");
      const { certFile, keyFile } = authority.issue("server", "DNS:memcached.test");
      const files = [`ssl_chain_cert=${certFile}`, `ssl_key=${keyFile}`, `ssl_ca_cert=${authority.authority.certFile}`];
      const server = await startServer(paths.memcached, ["-Z", "-o", [...files, "ssl_verify_mode=2"].join(",")]);
      const env = memcache([server], {
        MEMCACHE_TLS: "true",
        FAILURE_MODE: "error",
        ...settings(authority, directory),
      });
      return client(await startRateLimitService(join(folder, "config"), env));
    };
    const own = (authority: TestAuthority): Environment => {
      const { certFile, keyFile } = authority.issue("client", "DNS:client.test");
      return {
        MEMCACHE_TLS_CACERT: authority.authority.certFile,
        MEMCACHE_TLS_CLIENT_CERT: certFile,
        MEMCACHE_TLS_CLIENT_KEY: keyFile,
        MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION: "true",
      };
    };

    test("counts with a client certificate, at a server with another name", async () => {
      const { send } = await start(own);
      expect((await send("m=v")).statuses[0]?.limitRemaining).toBe(4);
      expect((await send("m=v")).statuses[0]?.limitRemaining).toBe(3);
    });

    test.each<[string, Environment]>([
      ["the server has another name", { MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION: "false" }],
      ["the authority is not known", { MEMCACHE_TLS_CACERT: "" }],
      ["it has no client certificate", { MEMCACHE_TLS_CLIENT_CERT: "", MEMCACHE_TLS_CLIENT_KEY: "" }],
      ["it uses no TLS", { MEMCACHE_TLS: "false" }],
    ])("fails calls if %s", async (_, env) => {
      const { outcome } = await start((authority) => ({ ...own(authority), ...env }));
      expect(await outcome("m=v")).toMatchObject({ code: 2, details: away });
    });
  });
});
