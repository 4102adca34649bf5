/**
 * Metrics by DogStatsD and by a mapping of statsd_exporter: those of the bundled service and of the reference, after
 * the same calls.
 */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/describe-with.ts";
import { freePort } from "../support/free-port.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { type Environment, startRateLimitService, startReference } from "../support/ratelimit-process.ts";
import { type RedisServer, startRedis } from "../support/redis-server.ts";

const limits = `domain: d
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2}
    descriptors:
      - key: path
        value: /a
        rate_limit: {unit: year, requests_per_unit: 10}
        descriptors:
          - key: method
            rate_limit: {unit: year, requests_per_unit: 10}
`;
const calls = [
  ["user=ann"],
  ["user=ann"],
  ["user=ann"],
  ["user=ann", "path=/a"],
  ["user=ann", "path=/a", "method=GET"],
];
const ruleCounters = "total_hits|over_limit|near_limit|within_limit";

describeWith(["redis-server", "ratelimit"], "metrics", (paths) => {
  let redis: RedisServer;
  let folder: string;

  beforeAll(async () => {
    redis = await startRedis(paths["redis-server"]);
    folder = await mkdtemp(join(tmpdir(), "sinks-"));
    await mkdir(join(folder, "config"));
    await writeFile(join(folder, "config", "limits.yaml"), limits);
  });
  afterAll(async () => {
    await redis.close();
    await rm(folder, { recursive: true });
  });

  const starts = {
    ours: (env: Environment) => startRateLimitService(join(folder, "config"), env),
    reference: (env: Environment) => startReference(paths.ratelimit, folder, env),
  };

  /** Starts a service and calls it. */
  async function call(which: keyof typeof starts, env: Environment): Promise<void> {
    const prefix = { CACHE_KEY_PREFIX: `${which}${Math.random()}` };
    const common = { REDIS_URL: `127.0.0.1:${redis.port}`, STATS_FLUSH_INTERVAL: "100ms", ...prefix, ...env };
    const service = await starts[which](common);
    onTestFinished(() => service.kill());
    const client = connectRateLimit(service.grpcPort);
    onTestFinished(() => client.close());
    for (const entries of calls) await client.send({ domain: "d", descriptors: [descriptor(...entries)] });
  }

  /** Sums of the counters that reach a DogStatsD agent, by name and tags. */
  async function dogStatsd(which: keyof typeof starts, env: Environment) {
    const agent = createSocket("udp4");
    onTestFinished(() => void agent.close());
    const sums = new Map<string, number>();
    agent.on("message", (datagram) => {
      for (const line of String(datagram).split("\n")) {
        const [, name, value, , tags = ""] = /^([^:]+):(\d+)\|c(\|#(.*))?$/.exec(line) ?? [];
        const isOfRule = name !== undefined && new RegExp(`(?:${ruleCounters})$`).test(name);
        // The agent ignores the order of tags.
        const series = `${name} ${tags.split(",").sort().join(",")}`;
        if (isOfRule) sums.set(series, (sums.get(series) ?? 0) + Number(value));
      }
    });
    agent.bind(0, "127.0.0.1");
    await once(agent, "listening");
    await call(which, {
      USE_DOG_STATSD: "true",
      STATSD_HOST: "127.0.0.1",
      STATSD_PORT: String(agent.address().port),
      ...env,
    });
    return sums;
  }

  test.each<[string, Environment, Readonly<Record<string, number>>]>([
    [
      "with EXTRA_TAGS as tags",
      { EXTRA_TAGS: "zone:a,team:b" },
      {
        "ratelimit.service.rate_limit.d.user.over_limit team:b,zone:a": 1,
        "ratelimit.service.rate_limit.d.user.near_limit team:b,zone:a": 1,
        "ratelimit.service.rate_limit.d.user.total_hits team:b,zone:a": 3,
        "ratelimit.service.rate_limit.d.user.within_limit team:b,zone:a": 2,
        "ratelimit.service.rate_limit.d.user.path_/a.total_hits team:b,zone:a": 1,
        "ratelimit.service.rate_limit.d.user.path_/a.within_limit team:b,zone:a": 1,
        "ratelimit.service.rate_limit.d.user.path_/a.method.total_hits team:b,zone:a": 1,
        "ratelimit.service.rate_limit.d.user.path_/a.method.within_limit team:b,zone:a": 1,
      },
    ],
    [
      "with parts of names converted to tags by the first matching rule of USE_DOG_STATSD_MOGRIFIERS",
      {
        EXTRA_TAGS: "zone:a",
        USE_DOG_STATSD_MOGRIFIERS: "DEEP,TOP",
        DOG_STATSD_MOGRIFIER_DEEP_PATTERN: "^ratelimit\\.service\\.rate_limit\\.([^.]+)\\.([^.]+)\\.([^.]+)\\.(.*)$",
        DOG_STATSD_MOGRIFIER_DEEP_NAME: "deep.$4",
        DOG_STATSD_MOGRIFIER_DEEP_TAGS: "domain:$1,levels:$2-$3,odd:$9",
        DOG_STATSD_MOGRIFIER_TOP_PATTERN: "rate_limit\\.(\\w+)\\.(\\w+)\\.(over_limit|total_hits)$",
        DOG_STATSD_MOGRIFIER_TOP_NAME: "top.$3",
      },
      {
        "top.over_limit zone:a": 1,
        "top.total_hits zone:a": 3,
        "ratelimit.service.rate_limit.d.user.near_limit zone:a": 1,
        "ratelimit.service.rate_limit.d.user.within_limit zone:a": 2,
        "deep.total_hits domain:d,levels:user-path_/a,odd:$9,zone:a": 1,
        "deep.within_limit domain:d,levels:user-path_/a,odd:$9,zone:a": 1,
        "deep.method.total_hits domain:d,levels:user-path_/a,odd:$9,zone:a": 1,
        "deep.method.within_limit domain:d,levels:user-path_/a,odd:$9,zone:a": 1,
      },
    ],
  ])("reach DogStatsD %s", { timeout: 60_000 }, async (_, env, expected) => {
    const ours = await dogStatsd("ours", env);
    const reference = await dogStatsd("reference", { USE_STATSD: "false", ...env });

    await expect.poll(() => Object.fromEntries(ours)).toEqual(expected);
    await expect.poll(() => Object.fromEntries(reference)).toEqual(expected);
  });

  /**
   * Reads the lines of /metrics at PROMETHEUS_ADDR that match, except counters with the value 0, which the reference
   * omits.
   */
  async function prometheus(
    which: keyof typeof starts,
    pattern: RegExp,
    env: Environment = {},
  ): Promise<() => Promise<readonly string[]>> {
    const port = await freePort();
    const address = { USE_PROMETHEUS: "true", USE_STATSD: "false", PROMETHEUS_ADDR: `127.0.0.1:${port}` };
    await call(which, { ...address, PROMETHEUS_PATH: "/stats/prometheus", ...env });
    return async () => {
      const text = await (await fetch(`http://127.0.0.1:${port}/stats/prometheus`)).text();
      return text
        .split("\n")
        .filter((line) => pattern.test(line) && !/ 0$/.test(line))
        .sort();
    };
  }

  test("have the reference's names by default, and a label for each level instead of the first two", {
    timeout: 60_000,
  }, async () => {
    const shared = [
      "ratelimit_service_config_load_success 1",
      'ratelimit_service_rate_limit_near_limit{domain="d",key1="user"} 1',
      'ratelimit_service_rate_limit_over_limit{domain="d",key1="user"} 1',
      'ratelimit_service_rate_limit_total_hits{domain="d",key1="user"} 3',
      'ratelimit_service_rate_limit_within_limit{domain="d",key1="user"} 2',
      'ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"} 5',
      'ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 5',
    ];
    const ofPath = (labels: string, hits: number) =>
      ["total_hits", "within_limit"].map(
        (metric) => `ratelimit_service_rate_limit_${metric}{domain="d",key1="user",key2="path_/a"${labels}} ${hits}`,
      );
    const expected = { ours: [...ofPath("", 1), ...ofPath(',key3="method"', 1)], reference: ofPath("", 2) };
    const pattern = /^ratelimit_service_(?:rate_limit|total_requests|config_load|response_time_seconds_count)/;
    for (const which of ["ours", "reference"] as const) {
      // Times and counters appear once they are flushed.
      const lines = await prometheus(which, pattern);
      await expect.poll(lines, { timeout: 10_000 }).toEqual([...shared, ...expected[which]].sort());
    }
  });

  test("have the names and labels of PROMETHEUS_MAPPER_YAML: globs before expressions, drops, added series", {
    timeout: 60_000,
  }, async () => {
    const mapper = join(folder, "mapper.yaml");
    await writeFile(
      mapper,
      `mappings:
  - match: "rate_limit\\\\.([^.]+)\\\\.([^.]+)\\\\.(.*\\\\.)?(total_hits|over_limit)"
    match_type: regex
    name: "hits_\${4}"
    labels: {domain: "$1", top: "\${2}_x"}
  - match: "ratelimit.service.rate_limit.*.*.within_limit"
    name: kept
    match_metric_type: counter
    labels: {top: "$2"}
  - match: ".*near_limit"
    match_type: regex
    action: drop
    name: dropped
  - match: "ratelimit_server.*.response_time"
    name: calls
    timer_type: histogram
    scale: 0.001
    histogram_options: {buckets: [30, 60]}
    labels: {method: "$1"}
`,
    );
    const env = { PROMETHEUS_MAPPER_YAML: mapper };
    const pattern = /^\w*(?:total_hits|over_limit|near_limit|within_limit|hits)\b|^calls_(?:count|bucket)|^kept/;
    const expected = [
      'calls_bucket{method="ShouldRateLimit",le="+Inf"} 5',
      'calls_bucket{method="ShouldRateLimit",le="30"} 5',
      'calls_bucket{method="ShouldRateLimit",le="60"} 5',
      'calls_count{method="ShouldRateLimit"} 5',
      'hits_over_limit{domain="d",top="user_x"} 1',
      'hits_total_hits{domain="d",top="user_x"} 5',
      'kept{top="user"} 2',
      "ratelimit_service_rate_limit_d_user_path__a_method_within_limit 1",
      "ratelimit_service_rate_limit_d_user_path__a_within_limit 1",
    ];
    for (const which of ["ours", "reference"] as const) {
      // Times and counters appear once they are flushed.
      await expect.poll(await prometheus(which, pattern, env), { timeout: 10_000 }).toEqual(expected);
    }
  });
});
