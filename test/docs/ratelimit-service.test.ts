/** The metrics and debug endpoints of docs/ratelimit-service.md, against those of the service. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { checkConfig } from "../../ratelimit-service/src/config/check-config.ts";
import { ConfigSet } from "../../ratelimit-service/src/config/config-set.ts";
import { OverLimitCache } from "../../ratelimit-service/src/limiter/over-limit-cache.ts";
import { CallTimes, callTimeBounds } from "../../ratelimit-service/src/metrics/call-times.ts";
import { prometheusFamilies } from "../../ratelimit-service/src/metrics/prometheus.ts";
import { takeStats } from "../../ratelimit-service/src/metrics/stats-snapshot.ts";
import { RateLimitStats } from "../../ratelimit-service/src/stats.ts";
import { MemcacheStore } from "../../ratelimit-service/src/store/memcache/memcache-store.ts";
import { ConnectionCounts } from "../../ratelimit-service/src/store/redis/connection-counts.ts";
import { debugRoutes } from "../../ratelimit-service/src/transport/debug/debug-routes.ts";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { Profiler } from "@gatewayproxy/runtime/profiler";
import { expect, test } from "vitest";
import { repository } from "./markdown.ts";

const memcacheOptions = {
  ...{ clock: systemClock, random: Math.random, jitterMaxSeconds: 0, failsOpen: false },
  onError: () => undefined,
};

const page = readFileSync(join(repository, "docs/ratelimit-service.md"), "utf8");
const codeIn = (section: string) => {
  const start = page.indexOf(`## ${section}\n`);
  const text = page.slice(start, page.indexOf("\n## ", start + 1));
  return [...text.matchAll(/`([^`]+)`/g)].flatMap((match) => match[1] ?? []);
};

test("the page lists every metric and no other", () => {
  const stats = takeStats(new RateLimitStats({ nearLimitRatio: 0.8 }), new CallTimes(), 0, {
    cache: new OverLimitCache(0).counts,
    pools: [{ pool: "redis_pool", ...new ConnectionCounts().counts }],
    commands: new MemcacheStore([], memcacheOptions).commands(),
  });
  const options = { extraTags: new Map<string, string>(), timesInMilliseconds: false, callTimeBounds };
  const declared = prometheusFamilies(stats, 0, options).map(({ name }) => name);

  expect(
    codeIn("Metrics")
      .filter((name) => name.startsWith("ratelimit_"))
      .sort(),
  ).toEqual(declared.sort());
});

test("the page lists every debug endpoint", () => {
  const none = () => Promise.resolve("");
  const routes = debugRoutes({
    configStatus: () => ({ update: { parts: [], problems: [], warnings: [] } }),
    counters: {
      list: () => undefined,
      change: () => Promise.resolve(0),
      deleteAll: () => undefined,
      onChange: () => undefined,
    },
    stats: none,
    metrics: () => Promise.resolve({ contentType: "text/plain", body: "" }),
    profiler: new Profiler(systemClock, () => []),
    heapSamples: () => Promise.resolve([]),
  });

  expect(codeIn("Ports")).toEqual(expect.arrayContaining(routes.map(([path]) => path)));
});

test("the limits of the page and of the examples load without problems", async () => {
  const blocks = [...page.matchAll(/```yaml\n(domain:[^`]*)```/g)].flatMap(([, text = ""]) => text);
  expect(blocks.length).toBeGreaterThan(3);
  for (const text of blocks) {
    const { problems, warnings } = new ConfigSet(false).update([{ key: "page", file: "page", text }]);
    expect([...problems, ...warnings], text).toEqual([]);
  }
  for (const folder of ["config", "budgets"]) {
    const check = await checkConfig(join(repository, "examples/ratelimit", folder), false);
    expect(check.exitCode, check.lines.join("\n")).toBe(0);
  }
});
