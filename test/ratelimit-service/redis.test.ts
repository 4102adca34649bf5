/** Processes that share a Redis: they are exact together, report an outage, and recover without a restart. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { type Environment, startRateLimitService } from "../support/ratelimit-process.ts";
import { type RedisServer, startRedis } from "../support/redis-server.ts";

const limits = "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, requests_per_unit: 150}\n";

describeWith(["redis-server"], "on one Redis", (paths) => {
  let redis: RedisServer;
  let folder: string;

  beforeAll(async () => {
    redis = await startRedis(paths["redis-server"]);
    folder = await mkdtemp(join(tmpdir(), "shared-"));
    await writeFile(join(folder, "limits.yaml"), limits);
  });
  afterAll(async () => {
    await redis.close();
    await rm(folder, { recursive: true });
  });

  async function start(env: Environment = {}) {
    const service = await startRateLimitService(folder, { REDIS_URL: `127.0.0.1:${redis.port}`, ...env });
    onTestFinished(() => service.kill());
    const client = connectRateLimit(service.grpcPort);
    onTestFinished(() => client.close());
    await expect.poll(() => client.health("ratelimit")).toBe("SERVING");
    return { ...service, client };
  }

  test("two instances allow exactly the limit, with several workers too", async () => {
    const instances = [await start(), await start({ WORKERS: "2" })];
    const call = { domain: "d", descriptors: [descriptor("k=together")] };
    const calls = Array.from({ length: 200 }, () => instances.map(({ client }) => client.send(call))).flat();
    const codes = (await Promise.all(calls)).map(({ overallCode }) => overallCode);

    expect(codes.filter((code) => code === "OK")).toHaveLength(150);
    expect(codes.filter((code) => code === "OVER_LIMIT")).toHaveLength(250);
  });

  test("after a call with huge hits a counter is over its limit and does not fail, with Redis and in memory", async () => {
    const inRedis = await start();
    const inMemory = await start({ REDIS_URL: "", BACKEND_TYPE: "memory" });
    const calls = (hitsAddend: string, times: number) =>
      Array.from({ length: times }, () => ({
        domain: "d",
        descriptors: [{ ...descriptor("k=huge"), hitsAddend: { value: hitsAddend } }],
      }));
    const rounds = [
      calls("9007199254740991", 1_100),
      calls("18446744073709551615", 3),
      calls("9223372036854775808", 3),
      calls("1", 1),
      calls("0", 1),
    ];
    const outcomes: unknown[][] = [];
    for (const { client } of [inRedis, inMemory]) {
      const codes = [];
      for (const round of rounds) {
        for (const response of await Promise.all(round.map((call) => client.outcome(call)))) {
          codes.push("overallCode" in response ? response.overallCode : response.details);
        }
      }
      outcomes.push(codes);
    }
    expect(outcomes[0]).toEqual(Array(1_108).fill("OVER_LIMIT"));
    expect(outcomes[1]).toEqual(outcomes[0]);
  });

  test("calls fail with a reason and health reports it while Redis is unavailable; both recover with it", async () => {
    const { client, http } = await start({ REDIS_TIMEOUT: "500ms" });
    const call = { domain: "d", descriptors: [descriptor("k=away")] };
    const health = async () => (await fetch(`${http}/healthcheck`)).status;
    await client.send(call);
    await redis.kill();

    expect(await client.outcome(call)).toMatchObject({ code: 2, details: expect.stringContaining("redis") as string });
    await expect.poll(() => client.health("ratelimit")).toBe("NOT_SERVING");
    expect(await health()).toBe(500);

    await redis.start();
    await expect.poll(() => client.health("ratelimit"), { timeout: 15_000 }).toBe("SERVING");
    expect(await health()).toBe(200);
    expect(await client.send(call)).toMatchObject({ overallCode: "OK" });
  });

  test.each(["1", "2"])(
    "counts its connections and its local cache like the reference, with %s workers",
    async (workers) => {
      const { client, debug } = await start({ LOCAL_CACHE_SIZE_IN_BYTES: "1000000", WORKERS: workers });
      const call = { domain: "d", descriptors: [{ ...descriptor(`k=cache${workers}`), hitsAddend: { value: 151 } }] };
      for (let times = 0; times < 3; times++) await client.send(call);
      const text = async (path: string) => (await fetch(`${debug}${path}`)).text();
      const stats = await text("/stats");
      const metrics = await text("/metrics");
      // The main thread has a connection besides those of the workers.
      const connections = workers === "1" ? 1 : 3;

      const counts = [
        ...["entryCount: 1", "hitCount: 2", "missCount: 1", "lookupCount: 3", "overwriteCount: 0", "evacuateCount: 0"],
        "expiredCount: 0",
      ];
      for (const line of counts) expect(stats).toContain(`ratelimit.localcache.${line}\n`);
      expect(metrics).toContain("ratelimit_localcache_hitCount 2\n");
      expect(stats).toContain(`ratelimit.redis_pool.cx_active: ${connections}\n`);
      expect(stats).toContain(`ratelimit.redis_pool.cx_total: ${connections}\n`);
      expect(stats).toContain("ratelimit.redis_pool.cx_local_close: 0\n");
      expect(metrics).toContain(`ratelimit_redis_pool_cx_active ${connections}\n`);

      await redis.command("CLIENT", "KILL", "TYPE", "normal");
      await expect.poll(() => text("/stats")).toContain(`ratelimit.redis_pool.cx_total: ${2 * connections}\n`);
      expect(await text("/stats")).toContain(`ratelimit.redis_pool.cx_local_close: ${connections}\n`);
    },
  );

  test.each(["open", "local"])("with FAILURE_MODE=%s calls succeed, and the service is healthy", async (mode) => {
    const { client, debug } = await start({ FAILURE_MODE: mode, REDIS_TIMEOUT: "500ms" });
    const call = { domain: "d", descriptors: [descriptor(`k=${mode}`)] };
    await client.send(call);
    await redis.kill();
    const codes = [];
    for (let times = 0; times < 160; times++) codes.push((await client.send(call)).overallCode);
    await redis.start();

    expect(codes.filter((code) => code === "OVER_LIMIT")).toHaveLength(mode === "open" ? 0 : 10);
    expect(await client.health("ratelimit")).toBe("SERVING");
    expect(await (await fetch(`${debug}/stats`)).text()).toContain("ratelimit.service.degraded: 160\n");
  });
});
