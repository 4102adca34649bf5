import { renderFamilies } from "@gatewayproxy/runtime/exposition";
import { describe, expect, test } from "vitest";
import { RateLimitStats } from "../stats.ts";
import { CallTimes, callTimeBounds } from "./call-times.ts";
import { type PrometheusOptions, prometheusFamilies } from "./prometheus.ts";
import { takeStats } from "./stats-snapshot.ts";

async function rendered(
  change: (stats: RateLimitStats, times: CallTimes) => void,
  options: Partial<PrometheusOptions> = {},
): Promise<string[]> {
  const stats = new RateLimitStats({ nearLimitRatio: 0.8 });
  const times = new CallTimes();
  change(stats, times);
  const families = prometheusFamilies(takeStats(stats, times, 3), 7, {
    extraTags: new Map(),
    timesInMilliseconds: false,
    callTimeBounds,
    ...options,
  });
  return (await renderFamilies(families)).split("\n");
}

describe("renderPrometheus", () => {
  test("labels a rule's counters with every level of its place", async () => {
    const lines = await rendered((stats) => {
      const series = stats.ofRule("rl.a_b.c.d", "rl", ["a_b", "c", "d"]);
      series.counts.totalHits = 5;
      series.counts.overLimitWithLocalCache = 2;
    });

    expect(lines).toContain('ratelimit_service_rate_limit_total_hits{domain="rl",key1="a_b",key2="c",key3="d"} 5');
    expect(lines).toContain(
      'ratelimit_service_rate_limit_over_limit_with_local_cache{domain="rl",key1="a_b",key2="c",key3="d"} 2',
    );
  });

  test("renders the service's own counters, the reference's names first", async () => {
    const lines = await rendered((stats) => {
      stats.service.storeError = 1;
      stats.service.serviceError = 2;
      stats.service.configLoadSuccess = 3;
      stats.service.configLoadError = 4;
      stats.countDomainNotFound("nope");
    });

    expect(lines).toEqual(
      expect.arrayContaining([
        'ratelimit_service_should_rate_limit_error{err_type="redis_error"} 1',
        'ratelimit_service_should_rate_limit_error{err_type="service_error"} 2',
        "ratelimit_service_config_load_success 3",
        "ratelimit_service_config_load_error 4",
        'ratelimit_service_rate_limit_domain_not_found{domain="nope"} 1',
        "ratelimit_service_grpc_connections 3",
        "ratelimit_service_memory_counters_evicted 7",
      ]),
    );
  });

  test("renders times as a cumulative histogram, in seconds or milliseconds", async () => {
    const observe = (_: RateLimitStats, times: CallTimes) => {
      for (const ms of [0.07, 0.3, 7, 60_000]) times.observe(ms);
    };
    const name = "ratelimit_service_response_time_seconds";

    expect(await rendered(observe)).toEqual(
      expect.arrayContaining([
        'ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 4',
        `${name}_bucket{grpc_method="ShouldRateLimit",le="0.00005"} 0`,
        `${name}_bucket{grpc_method="ShouldRateLimit",le="0.0005"} 2`,
        `${name}_bucket{grpc_method="ShouldRateLimit",le="10"} 3`,
        `${name}_bucket{grpc_method="ShouldRateLimit",le="+Inf"} 4`,
        `${name}_count{grpc_method="ShouldRateLimit"} 4`,
      ]),
    );
    expect(await rendered(observe, { timesInMilliseconds: true })).toContain(
      'ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.5"} 2',
    );
  });

  test("puts extra tags on every sample and quotes what needs it", async () => {
    const lines = await rendered(
      (stats) => {
        stats.ofRule("rl.x", "rl", ['a_"q"\\\n']).counts.totalHits = 1;
      },
      { extraTags: new Map([["cloud-zone", 'a"b']]) },
    );

    expect(lines).toContain(
      'ratelimit_service_rate_limit_total_hits{domain="rl",key1="a_\\"q\\"\\\\\\n",cloud_zone="a\\"b"} 1',
    );
    expect(lines.filter((line) => line !== "" && !line.startsWith("#") && !line.includes("cloud_zone"))).toEqual([]);
  });

  test("declares each metric once, before its samples", async () => {
    const declared = (await rendered(() => undefined)).flatMap((line) => /^# TYPE (\S+)/.exec(line)?.[1] ?? []);

    expect(new Set(declared).size).toBe(declared.length);
  });
});
