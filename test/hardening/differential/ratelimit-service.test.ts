/**
 * Our rate limit service against the reference, each with its own Redis and statsd server: random limits and calls, for
 * HARDENING_SECONDS. The responses, the errors, the keys in Redis with their values and expiries, and the names and
 * sums of the counters that statsd receives must be equal. Intended differences are not compared, as in
 * test/ratelimit-service/differential.test.ts.
 *
 * HARDENING_SEED repeats a run whose seed was printed.
 */
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { describeWith } from "../../support/describe-with.ts";
import { comparedResponse, domains, leaveTheHour, request, specs } from "../../support/random-limits.ts";
import { connectRateLimit } from "../../support/rate-limit-client.ts";
import { startRateLimitService, startReference } from "../../support/ratelimit-process.ts";
import { type RedisServer, startRedis } from "../../support/redis-server.ts";
import { hardeningSeconds } from "../support/fuzz.ts";

const callsOfRound = 100;
/** Under `npm test`. */
const quickRounds = 1;

/** Sums of the counters of rules, by name. */
async function startStatsd() {
  const sums = new Map<string, number>();
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    createInterface({ input: socket }).on("line", (line) => {
      const [, name = "", value] = /^(ratelimit\.service\.rate_limit\..*):(\d+)\|c$/.exec(line) ?? [];
      if (name !== "") sums.set(name, (sums.get(name) ?? 0) + Number(value));
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  // A listening TCP server has an address with a port.
  const { port } = server.address() as AddressInfo;
  return { sums, env: { USE_STATSD: "true", STATSD_HOST: "127.0.0.1", STATSD_PORT: String(port) } };
}

/** Values and the seconds to the expiry, by key. */
async function countersOf(redis: RedisServer) {
  const keys = (await redis.command("KEYS", "*")) as readonly string[];
  const script =
    "local r = {} for i, k in ipairs(KEYS) do r[i] = {redis.call('GET', k), redis.call('TTL', k)} end return r";
  const found = keys.length === 0 ? [] : await redis.command("EVAL", script, String(keys.length), ...keys);
  const values = found as readonly (readonly [string, number])[];
  return new Map(keys.map((key, i) => [key, { value: values[i]?.[0], secondsLeft: values[i]?.[1] ?? 0 }]));
}

/**
 * Whether windows of two units may count with this key: it ends in the start of the window without its unit, and a day
 * starts with an hour. The reference then has the expiry of the last call, and ours the longest.
 */
function mayShareKey(key: string): boolean {
  return Number(key.slice(key.lastIndexOf("_") + 1)) % 86_400 === 0;
}

describeWith(["redis-server", "ratelimit"], "ours and the reference", (paths) => {
  test("respond, count, expire counters and report alike", {
    timeout: 300_000 + 2_000 * (hardeningSeconds ?? 0),
  }, async () => {
    const seed = Number(process.env["HARDENING_SEED"] ?? (hardeningSeconds === undefined ? 11 : Date.now() % 2 ** 31));
    console.log(`differential: seed ${seed}`);
    const folder = await mkdtemp(join(tmpdir(), "differential-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    await mkdir(join(folder, "config"));
    for (const [i, descriptors] of fc.sample(specs(2), { seed, numRuns: domains.length }).entries()) {
      await writeFile(join(folder, "config", `${i}.yaml`), JSON.stringify({ domain: domains[i], descriptors }));
    }
    await leaveTheHour(90_000 + 1_000 * (hardeningSeconds ?? 0));
    const sides = [];
    for (const which of ["ours", "reference"] as const) {
      const redis = await startRedis(paths["redis-server"]);
      onTestFinished(() => redis.close());
      const statsd = await startStatsd();
      const env = {
        REDIS_URL: `127.0.0.1:${redis.port}`,
        ...{
          LIMIT_RESPONSE_HEADERS_ENABLED: "true",
          EXPIRATION_JITTER_MAX_SECONDS: "0",
          STATS_FLUSH_INTERVAL: "500ms",
        },
        ...statsd.env,
      };
      const start = {
        ours: () => startRateLimitService(join(folder, "config"), env),
        reference: () => startReference(paths.ratelimit, folder, env),
      };
      const service = await start[which]();
      onTestFinished(() => service.kill());
      const client = connectRateLimit(service.grpcPort);
      onTestFinished(() => client.close());
      sides.push({ redis, client, sums: statsd.sums });
    }
    const [ours, reference] = sides;
    if (ours === undefined || reference === undefined) throw new Error("a side is missing");

    const endMs = performance.now() + 1_000 * (hardeningSeconds ?? 0);
    let limited = 0;
    let rounds = 0;
    while (hardeningSeconds === undefined ? rounds < quickRounds : performance.now() < endMs) {
      for (const call of fc.sample(request, { seed: seed + rounds, numRuns: callsOfRound })) {
        const [first, second] = await Promise.all([
          comparedResponse(ours.client, call),
          comparedResponse(reference.client, call),
        ]);
        expect(first.response, `seed ${seed}: ${JSON.stringify(call)}`).toEqual(second.response);
        if ("overallCode" in first.response && first.response.overallCode === "OVER_LIMIT") limited++;
      }
      rounds++;
    }
    console.log(`differential: ${rounds * callsOfRound} calls, ${limited} over a limit`);

    expect(limited).toBeGreaterThan(0);
    const counters = [await countersOf(ours.redis), await countersOf(reference.redis)] as const;
    const keys = Array.from(counters[1]).filter(([, { value }]) => value !== "0");
    // Our service creates no counter for a check without hits.
    expect([...counters[0].keys()].sort()).toEqual(keys.map(([key]) => key).sort());
    expect(keys.length).toBeGreaterThan(10);
    const ends = new Map(keys);
    const slackSeconds = 60 + (hardeningSeconds ?? 0);
    for (const [key, { value, secondsLeft }] of counters[0]) {
      expect(value, key).toBe(ends.get(key)?.value);
      // Of windows that share a key, the reference keeps that of the last call, also of one without hits.
      if (mayShareKey(key)) continue;
      const later = secondsLeft - (ends.get(key)?.secondsLeft ?? 0);
      expect(Math.abs(later), key).toBeLessThan(slackSeconds);
    }
    const different = () =>
      [...new Set([...ours.sums.keys(), ...reference.sums.keys()])].flatMap((name) => {
        const [first = 0, second = 0] = [ours.sums.get(name), reference.sums.get(name)];
        return first === second ? [] : [`${name}: ours ${first}, the reference ${second}`];
      });
    await expect.poll(() => ours.sums.size, { timeout: 10_000 }).toBeGreaterThan(20);
    await expect.poll(different, { timeout: 10_000 }).toEqual([]);
  });
});
