/**
 * Ours against the reference: the same random limits, the same random calls, one Redis, and every answer must be equal.
 * Both count for themselves there (CACHE_KEY_PREFIX), except in the last test, where they count together.
 *
 * Left out, because the reference that can be built from the module proxy answers otherwise and ours is meant to:
 * wildcards within a value, quota_mode and refunds, which later versions have or changed, and overrides with the
 * over-limit cache, which takes a raised limit for the old one. And windows of a second or a minute, since the two
 * services would see their ends at different moments.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { RateLimitRequest } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitRequest";
import fc from "fast-check";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { connectRateLimit, descriptor, type RateLimitTestClient } from "../support/rate-limit-client.ts";
import { type Environment, startRateLimitService, startReference } from "../support/ratelimit-process.ts";
import { type RedisServer, startRedis } from "../support/redis-server.ts";

const domains = ["d0", "d1", "d2", "d3", "d4", "d5"];
const keys = ["a", "b", "c"];
const values = ["v", "vw", "w", ""];

/** A descriptor of a limit file. */
interface Spec {
  readonly key: string;
  readonly value: string | undefined;
  readonly rate_limit: object | undefined;
  readonly descriptors: readonly Spec[];
}

const unit = fc.constantFrom("hour", "day", "week", "month", "year");
const name = fc.constantFrom("n1", "n2", "n3");
const rateLimit = fc.oneof(
  { weight: 1, arbitrary: fc.constant({ unlimited: true }) },
  {
    weight: 8,
    arbitrary: fc
      .record(
        { unit, requests_per_unit: fc.nat(12), name, replaces: fc.subarray(["n4", "n5"]) },
        { requiredKeys: ["unit", "requests_per_unit"] },
      )
      .map(({ replaces, ...limit }) => ({
        ...limit,
        ...(replaces === undefined ? {} : { replaces: replaces.map((replaced) => ({ name: replaced })) }),
      })),
  },
  // Those that others replace.
  { weight: 2, arbitrary: fc.record({ unit, requests_per_unit: fc.nat(5), name: fc.constantFrom("n4", "n5") }) },
);

function specs(depth: number): fc.Arbitrary<readonly Spec[]> {
  const value = fc.constantFrom(undefined, "v", "w", "v*", "*");
  const node = fc
    .record({
      key: fc.constantFrom(...keys),
      value,
      rate_limit: fc.option(rateLimit, { nil: undefined, freq: 4 }),
      shadow_mode: fc.constantFrom(false, false, true),
      share_threshold: fc.boolean(),
      descriptors: depth > 0 ? specs(depth - 1) : fc.constant([]),
    })
    .map(({ share_threshold, ...spec }) => ({
      ...spec,
      ...(share_threshold && spec.value?.endsWith("*") === true ? { share_threshold } : {}),
    }));
  // JSON is YAML, and leaves out what is undefined.
  return fc.uniqueArray(node, { maxLength: 5, selector: (spec) => `${spec.key}_${spec.value ?? ""}` });
}

const requestDescriptor = fc
  .record({
    entries: fc.array(fc.record({ key: fc.constantFrom(...keys), value: fc.constantFrom(...values) }), {
      minLength: 1,
      maxLength: 3,
    }),
    hits: fc.constantFrom(undefined, undefined, 0, 1, 2, 7),
    override: fc.option(
      fc.record({ requestsPerUnit: fc.nat(9), unit: fc.constantFrom("HOUR", "DAY", "MONTH", "YEAR") } as const),
      { nil: undefined, freq: 8 },
    ),
  })
  .map(({ entries, hits, override }) => ({
    entries,
    ...(hits === undefined ? {} : { hitsAddend: { value: hits } }),
    ...(override === undefined ? {} : { limit: override }),
  }));

const request: fc.Arbitrary<RateLimitRequest> = fc.record({
  domain: fc.constantFrom(...domains, "unknown"),
  descriptors: fc.array(requestDescriptor, { minLength: 1, maxLength: 4 }),
  hitsAddend: fc.constantFrom(0, 0, 0, 1, 3),
});

/** What is compared: all that a client acts on. Times may lie on two sides of a second. */
async function answerOf(client: RateLimitTestClient, asked: RateLimitRequest) {
  const outcome = await client.outcome(asked);
  if ("code" in outcome) return { answer: outcome, resets: [] };
  const { overallCode, statuses, responseHeadersToAdd } = outcome;
  const headers = responseHeadersToAdd.filter(({ key }) => !key.endsWith("Reset"));
  return {
    answer: {
      overallCode,
      statuses: statuses.map(({ code, currentLimit, limitRemaining }) => ({ code, currentLimit, limitRemaining })),
      headers: headers.map(({ key, value }) => `${key}: ${value}`),
    },
    resets: statuses.map(({ durationUntilReset }) => Number(durationUntilReset?.seconds ?? -1)),
  };
}

describeWith(["redis-server", "ratelimit"], "ours and the reference", (paths) => {
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
    const ours = await startRateLimitService(join(folder, "config"), { ...common, CACHE_KEY_PREFIX: prefixes[0] });
    onTestFinished(() => ours.kill());
    const reference = await startReference(paths.ratelimit, folder, { ...common, CACHE_KEY_PREFIX: prefixes[1] });
    onTestFinished(() => reference.kill());
    const clients = [ours, reference].map(({ grpcPort }) => connectRateLimit(grpcPort));
    onTestFinished(() => clients.forEach((client) => client.close()));
    const [oursClient, referenceClient] = clients as [RateLimitTestClient, RateLimitTestClient];
    return { ours: oursClient, reference: referenceClient };
  }

  test.each([
    ["by default", {}, 2_500],
    ["with SHADOW_MODE", { SHADOW_MODE: "true" }, 700],
    ["when counting stops at the limit", { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: "true" }, 1_200],
    ["with an over-limit cache", { LOCAL_CACHE_SIZE_IN_BYTES: "1000000" }, 1_200],
  ])("answer alike %s", { timeout: 300_000 }, async (_, env: Environment, numRuns) => {
    const seed = numRuns;
    const both = await startBoth(env, [
      `ours${seed}${Object.keys(env).join("")}`,
      `reference${seed}${Object.keys(env).join("")}`,
    ]);
    const hasCache = "LOCAL_CACHE_SIZE_IN_BYTES" in env;
    let limited = 0;
    for (const [index, sampled] of fc.sample(request, { seed, numRuns }).entries()) {
      const asked = hasCache ? withoutOverrides(sampled) : sampled;
      const [ours, reference] = await Promise.all([answerOf(both.ours, asked), answerOf(both.reference, asked)]);
      expect(ours.answer, `call ${index}: ${JSON.stringify(asked)}`).toEqual(reference.answer);
      for (const [at, reset] of ours.resets.entries())
        expect(Math.abs(reset - (reference.resets[at] ?? 0))).toBeLessThan(2);
      if ("overallCode" in ours.answer && ours.answer.overallCode === "OVER_LIMIT") limited++;
    }

    // The calls are no proof where nothing is ever refused, or everything is.
    if (!("SHADOW_MODE" in env)) expect(limited).toBeGreaterThan(numRuns / 50);
    expect(limited).toBeLessThan(numRuns);
  });

  test("refuse alike what is no call", async () => {
    const both = await startBoth({}, ["o", "r"]);
    for (const asked of [
      { domain: "", descriptors: [descriptor("a=v")] },
      { domain: "d0", descriptors: [] },
    ]) {
      const reference = await both.reference.outcome(asked);

      expect(await both.ours.outcome(asked)).toEqual(reference);
      expect(reference).toMatchObject({ code: 2 });
    }
  });

  test("count on the same keys when they share them", { timeout: 60_000 }, async () => {
    const both = await startBoth({}, ["shared", "shared"]);
    let compared = 0;
    for (const [index, { entries }] of fc.sample(requestDescriptor, { seed: 3, numRuns: 600 }).entries()) {
      const domain = domains[index % domains.length] ?? "";
      const asked = { domain, descriptors: [{ entries, hitsAddend: { value: 1 } }] };
      const first = (await both.ours.ask(asked)).statuses[0];
      const second = (await both.reference.ask(asked)).statuses[0];
      const third = (await both.ours.ask(asked)).statuses[0];
      if (first?.currentLimit == null || first.limitRemaining < 2) continue;
      compared++;

      expect(second?.limitRemaining).toBe(first.limitRemaining - 1);
      expect(third?.limitRemaining).toBe(first.limitRemaining - 2);
    }

    expect(compared).toBeGreaterThan(5);
  });
});

function withoutOverrides(asked: RateLimitRequest): RateLimitRequest {
  const descriptors = (asked.descriptors ?? []).map((each) => ({ ...each, limit: null }));
  return { ...asked, descriptors };
}

/** Counters of an hour that ends while the calls are made would begin anew for one service first. */
async function leaveTheHour(): Promise<void> {
  const leftMs = 3_600_000 - (Date.now() % 3_600_000);
  if (leftMs < 90_000) await sleep(leftMs + 500);
}
