/** The log of a failing Redis: a line for each kind of error, and one when it responds again. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@redis/client";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { startRateLimitService } from "../support/ratelimit-process.ts";
import { type RedisServer, startRedis } from "../support/redis-server.ts";

const limits = "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, requests_per_unit: 1000}\n";

describeWith(["redis-server"], "an outage", (paths) => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "outages-"));
    await writeFile(join(folder, "limits.yaml"), limits);
  });
  afterAll(() => rm(folder, { recursive: true }));

  /** A service with its own Redis, and its log lines about the store. */
  async function start(options: readonly string[] = []) {
    const redis = await startRedis(paths["redis-server"], options);
    onTestFinished(() => redis.close());
    const service = await startRateLimitService(folder, {
      REDIS_URL: `127.0.0.1:${redis.port}`,
      REDIS_TIMEOUT: "200ms",
    });
    onTestFinished(() => service.kill());
    const client = connectRateLimit(service.grpcPort);
    onTestFinished(() => client.close());
    const send = () => client.outcome({ domain: "d", descriptors: [descriptor("k=v")] });
    const lines = (message: string): readonly string[] =>
      service.output.filter((line) => line.includes(`"msg":"${message}"`));
    return { redis, send, client, fails: () => lines("store fails"), recoveries: () => lines("store responds again") };
  }

  /** Calls until the log reports that the store responds again. */
  async function untilRecovered({ send, recoveries }: Awaited<ReturnType<typeof start>>): Promise<void> {
    await expect.poll(async () => [await send(), recoveries().length].at(-1), { timeout: 15_000 }).toBe(1);
  }

  test.each<readonly [string, (redis: RedisServer) => unknown, (redis: RedisServer) => unknown, RegExp]>([
    [
      "accepts no writes",
      (redis) => redis.command("REPLICAOF", "127.0.0.1", "1"),
      (redis) => redis.command("REPLICAOF", "NO", "ONE"),
      /READONLY/,
    ],
    ["does not respond", (redis) => redis.pause(), (redis) => redis.resume(), /did not respond within 200 ms/],
    ["is killed", (redis) => redis.kill(), (redis) => redis.start(), /ECONNREFUSED|closed unexpectedly/],
  ])("of a Redis that %s is logged", async (_, breakStore, restore, reason) => {
    const service = await start();
    const { redis, send, fails, recoveries } = service;
    await expect.poll(send).toMatchObject({ overallCode: "OK" });
    await breakStore(redis);
    for (let call = 0; call < 20; call++) await send();
    await expect.poll(() => fails().join("\n")).toMatch(reason);
    expect(recoveries()).toEqual([]);
    await restore(redis);
    await untilRecovered(service);

    const messages = fails().map((line) => (JSON.parse(line) as { err: { message: string } }).err.message);
    expect(new Set(messages).size).toBe(messages.length);
    expect(messages.length).toBeLessThanOrEqual(4);
  });

  test("of a Redis that requires a password is logged, even without calls", async () => {
    const service = await start(["--requirepass", "secret"]);
    await expect.poll(() => service.fails().length, { timeout: 10_000 }).toBe(1);
    expect(service.fails()[0]).toContain("NOAUTH");
    await expect.poll(() => service.client.health("ratelimit"), { timeout: 10_000 }).toBe("NOT_SERVING");

    const admin = createClient({ password: "secret", socket: { host: "127.0.0.1", port: service.redis.port } });
    await admin.connect();
    await admin.sendCommand(["CONFIG", "SET", "requirepass", ""]);
    admin.destroy();
    await expect.poll(() => service.recoveries().length, { timeout: 10_000 }).toBe(1);
  });
});
