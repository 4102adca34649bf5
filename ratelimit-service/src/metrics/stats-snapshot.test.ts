import { describe, expect, test } from "vitest";
import { RateLimitStats } from "../stats.ts";
import { CallTimes } from "./call-times.ts";
import { mergeStats, takeStats } from "./stats-snapshot.ts";

function thread(hits: number): { stats: RateLimitStats; times: CallTimes } {
  const stats = new RateLimitStats({ nearLimitRatio: 0.8 });
  stats.ofRule("rl.a", "rl", ["a"]).counts.totalHits = hits;
  stats.ofRule(`rl.own${hits}`, "rl", [`own${hits}`]).counts.overLimit = 1;
  stats.service.storeError = hits;
  stats.countDomainNotFound("nope");
  const times = new CallTimes();
  times.observe(hits);
  return { stats, times };
}

describe("mergeStats", () => {
  test("adds up what the threads have counted, rule by rule", () => {
    const snapshots = [1, 2, 3].map((hits) => {
      const { stats, times } = thread(hits);
      return takeStats(stats, times, 10);
    });
    const merged = mergeStats(snapshots);

    expect(merged.series.map(({ segments, counts }) => [segments[0], counts.totalHits, counts.overLimit])).toEqual([
      ["a", 6, 0],
      ["own1", 0, 1],
      ["own2", 0, 1],
      ["own3", 0, 1],
    ]);
    expect(merged.service.storeError).toBe(6);
    expect(merged.domainsNotFound).toEqual(new Map([["nope", 3]]));
    expect(merged.connections).toBe(30);
    expect(merged.callTimes).toMatchObject({ calls: 3, samplesMs: [1, 2, 3], sampledOf: 3 });
    expect(merged.callTimes.histogram.at(-1)).toBeCloseTo(0.006);
  });

  test("does not change when the threads count on", () => {
    const { stats, times } = thread(1);
    const snapshot = takeStats(stats, times, 0);
    stats.ofRule("rl.a", "rl", ["a"]).counts.totalHits = 9;
    times.observe(5);

    expect(snapshot.series[0]?.counts.totalHits).toBe(1);
    expect(snapshot.callTimes.calls).toBe(1);
  });

  test("survives being posted to another thread", () => {
    const { stats, times } = thread(1);
    const snapshot = takeStats(stats, times, 0);

    expect(structuredClone(snapshot)).toEqual(snapshot);
  });
});

describe("CallTimes", () => {
  test("keeps a bounded sample and says of how many", () => {
    const times = new CallTimes();
    for (let ms = 0; ms < 1_000; ms++) times.observe(ms);
    const { samplesMs, sampledOf } = times.take();

    expect(samplesMs).toHaveLength(100);
    expect(sampledOf).toBe(1_000);
    expect(times.take()).toMatchObject({ calls: 1_000, samplesMs: [], sampledOf: 0 });
  });
});
