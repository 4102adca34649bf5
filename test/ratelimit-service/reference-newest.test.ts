/**
 * Changes of the reference after its newest published module (3fb7025, January 2026) up to f2fb157 (July 2026): a case
 * for each change that users can see, by the number of its pull request. The differential tests run the published
 * module, so the expectations here come from reading the code.
 *
 * - #1095, the ENTRYPOINT of the image: test/ratelimit-service/image-commands.test.ts
 * - #1110, B3 headers: of tracing
 * - #1089, values in the debug log: the bundled service's are in test/ratelimit-service/log-levels.test.ts
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RateLimitConfig } from "@gatewayproxy/protos/gen/ratelimit/config/ratelimit/v3/RateLimitConfig";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { response, startXdsServer } from "../../ratelimit-service/src/config/xds/testing/xds-server.ts";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { descriptor, type RateLimitTestClient } from "../support/rate-limit-client.ts";
import { FixedClock, startInProcess } from "../support/ratelimit-in-process.ts";
import type { Environment } from "../support/ratelimit-process.ts";
import { startRedis, startRedisCluster } from "../support/redis-server.ts";

const limits = `domain: d
descriptors:
  - {key: path, value: /api/*/action, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: route, value: /api/*/resource/*/action, share_threshold: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: limit, rate_limit: {unit: day, requests_per_unit: 1}}
  - key: quota
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 1}
    metadata: {chosen: {name: first, tier: 1}, list: [a, {b: 2}], "on": true}
  - key: other
    quota_mode: true
    rate_limit: {unit: day, requests_per_unit: 2}
    metadata: {chosen: {name: second, zone: b}}
  - {key: detailed, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 9}, metadata: {of: detailed}}
`;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "reference-newest-"));
  await writeFile(join(folder, "limits.yaml"), limits);
});
afterAll(() => rm(folder, { recursive: true }));

/** Starts with counters in memory, and the files of the test. */
async function start(env: Environment = {}) {
  const files = { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: "." };
  return startInProcess({ ...files, BACKEND_TYPE: "memory", ...env }, { clock: new FixedClock() });
}

/** The codes of one call: overall, and of each descriptor. */
async function codesOf(client: RateLimitTestClient, ...entries: readonly string[]): Promise<readonly string[]> {
  const descriptors = entries.map((entry) => descriptor(entry));
  const { overallCode, statuses } = await client.send({ domain: "d", descriptors });
  return [overallCode, ...statuses.map(({ code }) => code)];
}

describe("#1085: `*` may be anywhere in a value", () => {
  test("in the middle, with a counter for each value", async () => {
    const { client } = await start();
    expect(await codesOf(client, "path=/api/1/action")).toEqual(["OK", "OK"]);
    expect(await codesOf(client, "path=/api/2/action")).toEqual(["OK", "OK"]);
    expect(await codesOf(client, "path=/api/1/action")).toEqual(["OVER_LIMIT", "OVER_LIMIT"]);
    for (let i = 0; i < 2; i++) expect(await codesOf(client, "path=/api/1/other")).toEqual(["OK", "OK"]);
  });

  test("more than once, and with one counter for all values", async () => {
    const { client } = await start();
    expect(await codesOf(client, "route=/api/v1/resource/1/action")).toEqual(["OK", "OK"]);
    expect(await codesOf(client, "route=/api/v2/resource/2/action")).toEqual(["OVER_LIMIT", "OVER_LIMIT"]);
    expect(await codesOf(client, "route=/api/resource/action")).toEqual(["OK", "OK"]);
  });
});

describe("#1059: the result of quotas", () => {
  test("is over the limit when all quotas are, and each status says which", async () => {
    const { client } = await start();
    expect(await codesOf(client, "quota=a", "other=a")).toEqual(["OK", "OK", "OK"]);
    expect(await codesOf(client, "quota=a", "other=a")).toEqual(["OK", "OVER_LIMIT", "OK"]);
    expect(await codesOf(client, "quota=a", "other=a")).toEqual(["OVER_LIMIT", "OVER_LIMIT", "OVER_LIMIT"]);
  });

  test("is over the limit when a further limit is", async () => {
    const { client } = await start();
    expect(await codesOf(client, "limit=a", "other=b")).toEqual(["OK", "OK", "OK"]);
    expect(await codesOf(client, "limit=a", "other=b")).toEqual(["OVER_LIMIT", "OVER_LIMIT", "OK"]);
  });
});

describe("#1112: metadata of a rule is in the dynamic metadata of responses", () => {
  const metadataOf = async (client: RateLimitTestClient, ...entries: readonly string[]) => {
    const descriptors = entries.map((entry) => descriptor(entry));
    const { dynamicMetadata } = await client.send({ domain: "d", descriptors });
    return dynamicMetadata?.fields["metadata"]?.structValue?.fields;
  };

  test("of the allowed descriptors, merged, with the first value of a field", async () => {
    const { client } = await start({ RESPONSE_DYNAMIC_METADATA: "true" });
    const both = await metadataOf(client, "quota=a", "other=a");
    expect(both).toMatchObject({
      on: { boolValue: true },
      list: { listValue: { values: [{ stringValue: "a" }, { structValue: { fields: { b: { numberValue: 2 } } } }] } },
      chosen: {
        structValue: {
          fields: { name: { stringValue: "first" }, tier: { numberValue: 1 }, zone: { stringValue: "b" } },
        },
      },
    });
    const second = await metadataOf(client, "quota=a", "other=a");
    expect(second?.["chosen"]?.structValue?.fields).toMatchObject({ name: { stringValue: "second" } });
    expect(second?.["list"]).toBeUndefined();
    expect(await metadataOf(client, "quota=a", "other=a")).toBeUndefined();
  });

  test("also of a rule with metrics of its values, which the reference omits", async () => {
    const { client } = await start({ RESPONSE_DYNAMIC_METADATA: "true" });
    expect(await metadataOf(client, "detailed=a")).toMatchObject({ of: { stringValue: "detailed" } });
  });

  test("is absent unless a setting enables it", async () => {
    const { client } = await start();
    const { dynamicMetadata } = await client.send({ domain: "d", descriptors: [descriptor("quota=a")] });
    expect(dynamicMetadata).toBeNull();
  });
});

/** A service whose limits are sent by xDS. */
async function startByXds(config: RateLimitConfig) {
  const server = await startXdsServer();
  onTestFinished(() => server.close());
  void server.streams.next().then((stream) => stream.write(response("1", config)));
  const xds = { CONFIG_TYPE: "GRPC_XDS_SOTW", CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}` };
  return start({ ...xds, RESPONSE_DYNAMIC_METADATA: "true" });
}

test("#1148, #1174, #1175: quota_mode and metadata are read from xDS, too", async () => {
  const rule = (key: string, requestsPerUnit: number): NonNullable<RateLimitConfig["descriptors"]>[number] => ({
    key,
    quotaMode: true,
    rateLimit: { unit: "DAY", requestsPerUnit },
    metadata: { fields: { chosen: { stringValue: key } } },
  });
  const { client } = await startByXds({ name: "d", domain: "d", descriptors: [rule("first", 1), rule("second", 2)] });
  const descriptors = [descriptor("first=a"), descriptor("second=a")];
  const responses = [];
  for (let i = 0; i < 3; i++) responses.push(await client.send({ domain: "d", descriptors }));

  expect(responses.map(({ overallCode }) => overallCode)).toEqual(["OK", "OK", "OVER_LIMIT"]);
  const chosen = responses.map(({ dynamicMetadata }) => {
    const { metadata } = dynamicMetadata?.fields ?? {};
    return metadata?.structValue?.fields["chosen"]?.stringValue;
  });
  expect(chosen).toEqual(["first", "second", undefined]);
});

test.each([
  ["in seconds", {}, ["0.001", "0.1"]],
  [
    "in milliseconds if the setting selects the legacy",
    { PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS: "true" },
    ["1", "100"],
  ],
] as const)("#1104: Prometheus shows response times %s", async (_, env, bounds) => {
  const { client, debug } = await start(env);
  await codesOf(client, "limit=a");
  const text = await (await fetch(`${debug}/metrics`)).text();
  const name = "ratelimit_service_response_time_seconds_bucket";

  expect(text).toContain("ratelimit_service_response_time_seconds_count");
  const seen = Array.from(text.matchAll(new RegExp(`${name}\\{.*?le="([\\d.]+)"`, "g")), ([, bound = ""]) => bound);
  expect(seen).toEqual(expect.arrayContaining([...bounds]));
});

describeWith(["redis-server"], "#1144: a start without Redis", (paths) => {
  test("retries, is unhealthy until then, and serves when Redis is available", async () => {
    const redis = await startRedis(paths["redis-server"]);
    onTestFinished(() => redis.close());
    await redis.kill();
    const clock = new FixedClock();
    const { client, http } = await startInProcess(
      {
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: ".",
        REDIS_SOCKET_TYPE: "tcp",
        REDIS_URL: `127.0.0.1:${redis.port}`,
        REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: "true",
        REDIS_STARTUP_INITIAL_INTERVAL: "11ms",
        REDIS_STARTUP_MAX_INTERVAL: "33ms",
      },
      { clock },
    );
    await expect.poll(() => clock.delaysMs).toEqual(expect.arrayContaining([11, 22, 33]));
    expect(clock.delaysMs).not.toContain(44);
    expect(await client.health("ratelimit")).toBe("NOT_SERVING");
    expect((await fetch(`${http}/healthcheck`)).status).toBe(500);

    await redis.start();
    await expect.poll(() => client.health("ratelimit")).toBe("SERVING");
    expect(await codesOf(client, "limit=a")).toEqual(["OK", "OK"]);
  });

  test("ends after REDIS_STARTUP_MAX_ELAPSED_TIME", async () => {
    const env = { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: ".", REDIS_SOCKET_TYPE: "tcp" };
    const { output } = await startInProcess({
      ...env,
      REDIS_URL: `127.0.0.1:${await freePort()}`,
      REDIS_STARTUP_INITIAL_INTERVAL: "1ms",
      REDIS_STARTUP_MAX_ELAPSED_TIME: "20ms",
    });
    await expect.poll(() => output.join("\n")).toContain("fatal: ");
  });
});

describeWith(["redis-server"], "#1149: the counters of a call in a Redis Cluster", (paths) => {
  test("are read from all nodes concurrently, whatever the setting of the parallelism", async () => {
    const nodes = await startRedisCluster(paths["redis-server"]);
    onTestFinished(async () => {
      await Promise.all(nodes.map((node) => node.close()));
    });
    const { client } = await start({
      ...{ BACKEND_TYPE: "redis", REDIS_SOCKET_TYPE: "tcp", REDIS_CLUSTER_PIPELINE_PARALLELISM: "1" },
      ...{ REDIS_TYPE: "CLUSTER", REDIS_URL: nodes.map(({ port }) => `127.0.0.1:${port}`).join(",") },
      REDIS_TIMEOUT: "300ms",
    });
    const send = (name: string) => {
      // Keys that differ in a digit are close in CRC16; those of different lengths are not.
      const descriptors = Array.from({ length: 30 }, (_, i) => descriptor(`limit=${name}${"-".repeat(i)}`));
      return client.outcome({ domain: "d", descriptors });
    };
    await expect.poll(() => send("ready")).toHaveProperty("overallCode");
    for (const [number, paused] of nodes.entries()) {
      const others = nodes.filter((node) => node !== paused);
      const sizes = () => Promise.all(others.map(async (node) => Number(await node.command("DBSIZE"))));
      const before = await sizes();
      paused.pause();
      expect(await send(`paused${number}`)).toHaveProperty("code", 2);
      paused.resume();
      // The nodes that respond have counted their part, although the call waited for another.
      for (const [i, size] of (await sizes()).entries()) expect(size).toBeGreaterThan(before[i] ?? 0);
      await expect.poll(() => send(`resumed${number}`)).toHaveProperty("overallCode");
    }
  });
});
