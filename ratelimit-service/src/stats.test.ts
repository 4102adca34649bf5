import { describe, expect, test } from "vitest";
import { RateLimitStats, type RuleCounts } from "./stats.ts";
import { createStoreMemory, MemoryTables } from "./store/memory-tables.ts";
import { MemoryStore } from "./store/memory-store.ts";
import { createCore } from "./testing/acceptance/core.ts";
import { parseCall } from "./testing/acceptance/notation.ts";
import type { CaseSettings } from "./testing/acceptance/case.ts";

/** Counts of one outcome on fresh counters. */
function countsAfter(requestsPerUnit: number, after: number, hits: number): Partial<RuleCounts> {
  const stats = new RateLimitStats({ nearLimitRatio: 0.8 });
  const { counts } = stats.ofRule("d.k", "d", ["k"]);
  const isOverLimit = after > requestsPerUnit;
  stats.countOutcome(counts, { hits, before: after - hits, after, requestsPerUnit, isOverLimit, isShadow: false });
  return { nearLimit: counts.nearLimit, overLimit: counts.overLimit, withinLimit: counts.withinLimit };
}

describe("case 69: hits near the limit and over it are distinguished within a call", () => {
  test.each([
    [20, 5, 3, { nearLimit: 0, overLimit: 0, withinLimit: 3 }],
    [8, 7, 2, { nearLimit: 1, overLimit: 0, withinLimit: 2 }],
    [20, 19, 3, { nearLimit: 3, overLimit: 0, withinLimit: 3 }],
    [20, 22, 3, { nearLimit: 1, overLimit: 2, withinLimit: 0 }],
    [20, 22, 7, { nearLimit: 4, overLimit: 2, withinLimit: 0 }],
    [10, 30, 3, { nearLimit: 0, overLimit: 3, withinLimit: 0 }],
  ])("limit %d, counter %d after %d hits", (limit, after, hits, counts) => {
    expect(countsAfter(limit, after, hits)).toEqual(counts);
  });
});

/** A core with the memory store, and a way to ask for one descriptor of the probe domain. */
function probe(settings: CaseSettings = {}) {
  const core = createCore((clock) => new MemoryStore(new MemoryTables(createStoreMemory(256), 1), clock), settings);
  return {
    ...core,
    ask: async (descriptor: string, domain = "probe") => core.service.shouldRateLimit(parseCall(domain, [descriptor])),
    counts: () => [...core.stats.series()].map(({ counts }) => counts)[0],
  };
}

describe("the counters of a rule", () => {
  test("case 68: near, over, within and from memory, at counts of 11, 13 and 16 of 15", async () => {
    const counts = [11, 13, 16];
    const store = {
      apply: () => [counts.shift() ?? 0],
      change: () => Promise.resolve(0),
      isHealthy: () => true,
      close: () => Promise.resolve(),
    };
    const { service, stats } = createCore(() => store, { overLimitCache: true });
    const seen: (readonly number[])[] = [];
    for (let i = 0; i < 4; i++) {
      await service.shouldRateLimit(parseCall("probe", ["k=v @15/HOUR"]));
      for (const { counts: now } of stats.series()) {
        seen.push([now.nearLimit, now.overLimit, now.withinLimit, now.overLimitWithLocalCache]);
      }
    }
    expect(seen).toEqual([
      [0, 0, 1, 0],
      [1, 0, 2, 0],
      [1, 1, 2, 0],
      [1, 2, 2, 1],
    ]);
  });

  test("12 single hits, a call of 15 and a single one, each on a limit of ten of its own", async () => {
    const { ask, counts } = probe();
    for (let i = 0; i < 12; i++) await ask("ten=a");
    await ask("ten=b #15");
    await ask("ten=c");
    expect(counts()).toMatchObject({ totalHits: 28, withinLimit: 11, nearLimit: 4, overLimit: 7 });
  });

  test("case 62: a value with a series of its own", async () => {
    const { ask, stats } = probe();
    for (let i = 0; i < 3; i++) await ask("unspec=unspecified_value", "rl");
    expect([...stats.series()]).toEqual([
      expect.objectContaining({ domain: "rl", segments: ["unspec_unspecified_value"] }),
    ]);
    expect([...stats.series()][0]?.counts).toMatchObject({ totalHits: 3, overLimit: 1 });
  });

  test("of a rule in shadow mode tell what it let pass", async () => {
    const { ask, counts } = probe();
    for (let i = 0; i < 5; i++) await ask("foo=x,baz=shady", "rl");
    expect(counts()).toMatchObject({ totalHits: 5, withinLimit: 3, overLimit: 2, shadowMode: 2 });
  });

  test("tell refunds apart", async () => {
    const { ask, counts } = probe();
    await ask("ten=a #4");
    await ask("ten=a #-3");
    expect(counts()).toMatchObject({ totalHits: 4, totalNegativeHits: 3 });
  });

  test("do not wrap around when a call is held back (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT)", async () => {
    const { service, stats } = probe({ stopsAtOverLimit: true });
    await service.shouldRateLimit(parseCall("probe", ["ten=a", "zero=a"]));
    const counts = new Map([...stats.series()].map(({ segments, counts: own }) => [segments.join(), own]));
    expect(counts.get("ten")).toMatchObject({ totalHits: 1, withinLimit: 0, nearLimit: 0, overLimit: 0 });
    expect(counts.get("zero")).toMatchObject({ totalHits: 1, overLimit: 1 });
  });

  test("are not opened for a limit that another replaces", async () => {
    const { service, stats } = probe();
    await service.shouldRateLimit(
      parseCall("rl", ["foo=x,bar=banned", "source_cluster=proxy,destination_cluster=override"]),
    );
    expect([...stats.series()].map(({ segments }) => segments)).toEqual([
      ["source_cluster_proxy", "destination_cluster_override"],
    ]);
  });
});

describe("the number of series is bounded", () => {
  test("values past the bound count for their rule, and what had a series keeps it", () => {
    const stats = new RateLimitStats({ nearLimitRatio: 0.8, maxSeries: 2 });
    const [a, b] = [stats.ofValues("d.k_a", "d", ["k_a"]), stats.ofValues("d.k_b", "d", ["k_b"])];
    expect(stats.ofValues("d.k_c", "d", ["k_c"])).toBeUndefined();
    expect(stats.ofValues("d.k_a", "d", ["k_a"])).toBe(a);
    expect(stats.ofRule("d.k", "d", ["k"])).not.toBe(b);
    expect([...stats.series()]).toHaveLength(3);
  });

  test("a name of absurd length opens none", () => {
    const stats = new RateLimitStats({ nearLimitRatio: 0.8 });
    const long = "v".repeat(1_025);
    expect(stats.ofValues(long, "d", [long])).toBeUndefined();
    stats.countDomainNotFound(long);
    expect([...stats.domainsNotFound()]).toEqual([["other", 1]]);
  });

  test("unknown domains past the bound are counted together", () => {
    const stats = new RateLimitStats({ nearLimitRatio: 0.8, maxSeries: 2 });
    for (const domain of ["a", "b", "c", "d", "a"]) stats.countDomainNotFound(domain);
    expect([...stats.domainsNotFound()]).toEqual([
      ["a", 2],
      ["b", 1],
      ["other", 2],
    ]);
  });
});
