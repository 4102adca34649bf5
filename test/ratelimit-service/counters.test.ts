/**
 * DELETE and POST of /counters at the debug port: the next call counts from there, on one thread and on several, with
 * each store; the log has one line, and the metrics count.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Clock, systemClock } from "@gatewayproxy/runtime/clock";
import { expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { startMemcached } from "../support/memcached-server.ts";
import { connectRateLimit, descriptor, type RateLimitTestClient } from "../support/rate-limit-client.ts";
import { FixedClock, startInProcess } from "../support/ratelimit-in-process.ts";
import { type Environment, startRateLimitService } from "../support/ratelimit-process.ts";
import { startRedis } from "../support/redis-server.ts";

const plainLimits = `domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 5, calendar: true, timezone: Asia/Tokyo}}
`;
const limits = `${plainLimits}  - key: both
    rate_limits:
      - {unit: year, requests_per_unit: 5}
      - {unit: year, requests_per_unit: 9, window: sliding}
`;

async function folderWith(text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "counters-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await mkdir(join(folder, "config"));
  await writeFile(join(folder, "config", "shop.yaml"), text);
  return folder;
}

async function start(env: Environment, text = limits, clock: Clock = new FixedClock()) {
  const folder = await folderWith(text);
  return startInProcess({ RUNTIME_ROOT: folder, LOG_LEVEL: "warn", ...env }, { clock });
}

async function change(debug: string, method: "DELETE" | "POST", query: string, body?: object): Promise<unknown> {
  const text = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(`${debug}/counters?${query}`, { method, ...text });
  const content = await response.text();
  return response.status === 200 ? JSON.parse(content) : `${response.status} ${content}`;
}

/** The code and what remains after one more hit. */
async function hit(client: RateLimitTestClient, entry: string): Promise<readonly unknown[]> {
  const { overallCode, statuses } = await client.send({ domain: "shop", descriptors: [descriptor(entry)] });
  return [overallCode, statuses[0]?.limitRemaining];
}

async function expectChanges(
  { client, debug }: { readonly client: RateLimitTestClient; readonly debug: string },
  entries: readonly string[],
): Promise<void> {
  for (const entry of entries) {
    for (let i = 0; i < 6; i++) await hit(client, entry);
    expect(await hit(client, entry)).toEqual(["OVER_LIMIT", 0]);
    const counters = entry.startsWith("both") ? 2 : 1;
    expect(await change(debug, "DELETE", `domain=shop&${entry}`)).toEqual({ deleted: counters });
    expect(await hit(client, entry)).toEqual(["OK", 4]);
    expect(await change(debug, "POST", `domain=shop&${entry}`, { count: 5 })).toEqual({ set: counters, count: 5 });
    expect(await hit(client, entry)).toEqual(["OVER_LIMIT", 0]);
    expect(await change(debug, "POST", `domain=shop&${entry}`, { count: 0 })).toEqual({ set: counters, count: 0 });
    expect(await hit(client, entry)).toEqual(["OK", 4]);
    expect(await change(debug, "DELETE", `domain=shop&${entry}x`)).toEqual({ deleted: 0 });
  }
}

test("with counters in memory", async () => {
  const service = await start({ BACKEND_TYPE: "memory" });
  await expectChanges(service, ["user=ada", "month=ada", "both=ada"]);
  expect(await change(service.debug, "POST", "domain=shop&both=ada", { count: 9, limit: 1 })).toEqual({
    ...{ set: 1, count: 9 },
  });
  expect(await hit(service.client, "both=ada")).toEqual(["OVER_LIMIT", 0]);
  expect(await change(service.debug, "POST", "domain=shop&both=ada", { count: 9, limit: 2 })).toBe(
    "404 the descriptor has 2 limits, so limit must be less\n",
  );
  expect(await change(service.debug, "DELETE", "domain=shop")).toEqual({ deleted: 4 });
  expect(await change(service.debug, "DELETE", "all=true")).toEqual({ deleted: 0 });
  expect(await hit(service.client, "both=ada")).toEqual(["OK", 4]);
  expect(await change(service.debug, "DELETE", "domain=shop&other=ada")).toBe(
    "404 no limit matches the descriptor; /match explains why\n",
  );
});

test("each change has one line in the log, at the default level of /bin/ratelimit, and counts in the metrics", async () => {
  const { client, debug, output, stats } = await start({ BACKEND_TYPE: "memory" });
  await hit(client, "user=ada");
  await change(debug, "DELETE", "domain=shop&user=ada");
  await change(debug, "POST", "domain=shop&both=ada", { count: 3 });
  await change(debug, "DELETE", "domain=shop&nothing=ada");
  await change(debug, "DELETE", "all=true");
  const lines = output.map((line) => JSON.parse(line) as Record<string, unknown>);
  for (const line of lines) delete line["time"];
  expect(lines).toEqual([
    {
      ...{ level: "warn", module: "ratelimit::store", msg: "counters deleted by an operator" },
      ...{ domain: "shop", descriptor: "user=ada", counters: 1, client: "127.0.0.1" },
    },
    {
      ...{ level: "warn", module: "ratelimit::store", msg: "counters set by an operator" },
      ...{ domain: "shop", descriptor: "both=ada", count: 3, counters: 2, client: "127.0.0.1" },
    },
    {
      ...{ level: "warn", module: "ratelimit::store", msg: "counters deleted by an operator" },
      ...{ counters: 2, client: "127.0.0.1" },
    },
  ]);
  const counted = await stats();
  expect(counted.get("ratelimit.service.counters_deleted")).toBe(3);
  expect(counted.get("ratelimit.service.counters_set")).toBe(2);
});

test("on several threads, also those whose local cache denies", { timeout: 60_000 }, async () => {
  const service = await startRateLimitService(join(await folderWith(limits), "config"), {
    ...{ WORKERS: "2", LOCAL_CACHE_SIZE_IN_BYTES: "100000" },
  });
  onTestFinished(() => service.kill());
  const clients = Array.from({ length: 6 }, () => connectRateLimit(service.grpcPort));
  onTestFinished(() => clients.forEach((client) => client.close()));
  for (const entry of ["user=ada", "both=ada"]) {
    for (let i = 0; i < 3; i++) for (const client of clients) await hit(client, entry);
    for (const client of clients) expect(await hit(client, entry)).toEqual(["OVER_LIMIT", 0]);
    await change(service.debug, "DELETE", `domain=shop&${entry}`);
    const after = [];
    for (const client of clients) after.push(await hit(client, entry));
    expect(after).toEqual([4, 3, 2, 1, 0, 0].map((left, i) => [i === 5 ? "OVER_LIMIT" : "OK", left]));
  }
});

describeWith(["redis-server"], "with counters in Redis", (program) => {
  test("as in memory, by descriptor", async () => {
    const redis = await startRedis(program["redis-server"]);
    onTestFinished(() => redis.close());
    const env = { BACKEND_TYPE: "redis", REDIS_URL: `127.0.0.1:${redis.port}`, LOCAL_CACHE_SIZE_IN_BYTES: "10000" };
    const service = await start(env);
    await expectChanges(service, ["user=ada", "month=ada", "both=ada"]);
    expect(await change(service.debug, "DELETE", "domain=shop")).toContain("501 the counters of a remote store");
    await redis.kill();
    expect(await change(service.debug, "DELETE", "domain=shop&user=ada")).toMatch(/^503 redis/);
  });
});

describeWith(["memcached"], "with counters in memcached", (program) => {
  test("as in memory, for limits that memcached can count", async () => {
    const memcached = await startMemcached(program.memcached);
    onTestFinished(() => memcached.kill());
    const env = { BACKEND_TYPE: "memcache", MEMCACHE_HOST_PORT: `127.0.0.1:${memcached.port}` };
    // memcached expires counters of long windows at a date.
    const service = await start(env, plainLimits, systemClock);
    await expectChanges(service, ["user=ada", "month=ada"]);
  });

  test("a file with other limits is rejected, and the service says why", async () => {
    const memcached = await startMemcached(program.memcached);
    onTestFinished(() => memcached.kill());
    const env = { BACKEND_TYPE: "memcache", MEMCACHE_HOST_PORT: `127.0.0.1:${memcached.port}` };
    const { debug } = await start({ ...env, FORCE_START_WITHOUT_INITIAL_CONFIG: "true" });
    await expect
      .poll(async () => (await fetch(`${debug}/config_status`)).text())
      .toContain("rate_limits cannot be counted with BACKEND_TYPE=memcache (accepted: memory, redis)");
  });
});
