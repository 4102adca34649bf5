/**
 * The bundled service against the reference: the same random limits, the same random calls, one Redis, and every
 * response must be equal. They count separately (CACHE_KEY_PREFIX), except in the last test, where they share counters.
 *
 * Intended differences to the reference that can be built from the module proxy are not compared: wildcards within a
 * value, quota_mode and refunds, which later versions have or changed; overrides with the over-limit cache, which uses
 * the old limit after a raise; and windows of a second or a minute, since the two services would see their ends at
 * different times.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RateLimitRequest } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitRequest";
import fc from "fast-check";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { connectRateLimit, descriptor, type RateLimitTestClient } from "../support/rate-limit-client.ts";
import { type Environment, startRateLimitService, startReference } from "../support/ratelimit-process.ts";
import {
  comparedResponse,
  domains,
  leaveTheHour,
  request,
  requestDescriptor,
  specs,
} from "../support/random-limits.ts";
import { type RedisServer, startRedis } from "../support/redis-server.ts";

describeWith(["redis-server", "ratelimit"], "the bundled service and the reference", (paths) => {
  let redis: RedisServer;
  let folder: string;

  beforeAll(async () => {
    redis = await startRedis(paths["redis-server"]);
    folder = await mkdtemp(join(tmpdir(), "differential-"));
    await mkdir(join(folder, "config"));
    const files = fc.sample(specs(2), { seed: 7, numRuns: domains.length });
    for (const [index, descriptors] of files.entries()) {
      const file = join(folder, "config", `${index}.yaml`);
      await writeFile(file, JSON.stringify({ domain: domains[index], descriptors }));
    }
    await leaveTheHour();
  }, 180_000);
  afterAll(async () => {
    await redis.close();
    await rm(folder, { recursive: true });
  });

  async function startBoth(env: Environment, prefixes: readonly [string, string]) {
    const common = {
      REDIS_URL: `127.0.0.1:${redis.port}`,
      LIMIT_RESPONSE_HEADERS_ENABLED: "true",
      EXPIRATION_JITTER_MAX_SECONDS: "0",
      ...env,
    };
    const bundled = await startRateLimitService(join(folder, "config"), { ...common, CACHE_KEY_PREFIX: prefixes[0] });
    onTestFinished(() => bundled.kill());
    const reference = await startReference(paths.ratelimit, folder, { ...common, CACHE_KEY_PREFIX: prefixes[1] });
    onTestFinished(() => reference.kill());
    const clients = [bundled, reference].map(({ grpcPort }) => connectRateLimit(grpcPort));
    onTestFinished(() => clients.forEach((client) => client.close()));
    const [oursClient, referenceClient] = clients as [RateLimitTestClient, RateLimitTestClient];
    return { bundled: oursClient, reference: referenceClient };
  }

  test.each([
    ["by default", {}, 2_500],
    ["with SHADOW_MODE", { SHADOW_MODE: "true" }, 700],
    ["when counting stops at the limit", { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: "true" }, 1_200],
    ["with an over-limit cache", { LOCAL_CACHE_SIZE_IN_BYTES: "1000000" }, 1_200],
  ])("respond alike %s", { timeout: 300_000 }, async (_, env: Environment, numRuns) => {
    const seed = numRuns;
    const both = await startBoth(env, [
      `ours${seed}${Object.keys(env).join("")}`,
      `reference${seed}${Object.keys(env).join("")}`,
    ]);
    const hasCache = "LOCAL_CACHE_SIZE_IN_BYTES" in env;
    let limited = 0;
    for (const [index, sampled] of fc.sample(request, { seed, numRuns }).entries()) {
      const call = hasCache ? withoutOverrides(sampled) : sampled;
      const [bundled, reference] = await Promise.all([
        comparedResponse(both.bundled, call),
        comparedResponse(both.reference, call),
      ]);
      expect(bundled.response, `call ${index}: ${JSON.stringify(call)}`).toEqual(reference.response);
      for (const [at, reset] of bundled.resets.entries()) {
        expect(Math.abs(reset - (reference.resets[at] ?? 0))).toBeLessThan(2);
      }
      if ("overallCode" in bundled.response && bundled.response.overallCode === "OVER_LIMIT") limited++;
    }

    // The comparison proves little if no call is denied, or every call.
    if (!("SHADOW_MODE" in env)) expect(limited).toBeGreaterThan(numRuns / 50);
    expect(limited).toBeLessThan(numRuns);
  });

  test("reject invalid calls alike", async () => {
    const both = await startBoth({}, ["o", "r"]);
    for (const call of [
      { domain: "", descriptors: [descriptor("a=v")] },
      { domain: "d0", descriptors: [] },
    ]) {
      const reference = await both.reference.outcome(call);

      expect(await both.bundled.outcome(call)).toEqual(reference);
      expect(reference).toMatchObject({ code: 2 });
    }
  });

  test("count on the same keys if they share them", { timeout: 60_000 }, async () => {
    const both = await startBoth({}, ["shared", "shared"]);
    let compared = 0;
    for (const [index, { entries }] of fc.sample(requestDescriptor, { seed: 3, numRuns: 600 }).entries()) {
      const domain = domains[index % domains.length] ?? "";
      const call = { domain, descriptors: [{ entries, hitsAddend: { value: 1 } }] };
      const first = (await both.bundled.send(call)).statuses[0];
      const second = (await both.reference.send(call)).statuses[0];
      const third = (await both.bundled.send(call)).statuses[0];
      if (first?.currentLimit == null || first.limitRemaining < 2) continue;
      compared++;

      expect(second?.limitRemaining).toBe(first.limitRemaining - 1);
      expect(third?.limitRemaining).toBe(first.limitRemaining - 2);
    }

    expect(compared).toBeGreaterThan(5);
  });
});

function withoutOverrides(call: RateLimitRequest): RateLimitRequest {
  const descriptors = (call.descriptors ?? []).map((each) => ({ ...each, limit: null }));
  return { ...call, descriptors };
}
