/** Settings of the metrics. */
import { optional, text } from "@gatewayproxy/runtime/setting-kinds";
import type { Settings } from "@gatewayproxy/runtime/settings";
import { duration, flag, integer, pairs, word } from "./kinds.ts";

export const statsSettings = {
  disableStats: { kind: flag, env: "DISABLE_STATS", default: "false", help: "Disables all metrics." },
  maxMetricSeries: {
    kind: integer(1, 10_000_000),
    env: "MAX_METRIC_SERIES",
    default: "10000",
    help: "Metric series named after values of calls (detailed_metric, value_to_metric, overrides); further values count for their rule.",
  },
  usePrometheus: {
    kind: flag,
    env: "USE_PROMETHEUS",
    default: "false",
    help: "Serves metrics at PROMETHEUS_ADDR; the debug server has them in any case.",
  },
  prometheusAddr: {
    kind: text("HOST:PORT", "HOST:PORT or :PORT"),
    env: "PROMETHEUS_ADDR",
    default: ":9090",
    help: "Address of that server.",
  },
  prometheusPath: { kind: text("PATH", "a path"), env: "PROMETHEUS_PATH", default: "/metrics", help: "Its path." },
  prometheusMapperYaml: {
    kind: optional(text("FILE", "the path of a YAML file")),
    env: "PROMETHEUS_MAPPER_YAML",
    help: "Rules of statsd_exporter that give Prometheus metrics their names and labels, in place of the built-in ones.",
  },
  prometheusResponseTimeAsMilliseconds: {
    kind: flag,
    env: "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
    default: "false",
    help: "Reports response times in milliseconds instead of seconds.",
  },
  useStatsd: {
    kind: optional(flag),
    env: "USE_STATSD",
    defaultText: "true where STATSD_HOST is set",
    help: "Sends metrics to a statsd server.",
  },
  statsdHost: {
    kind: optional(text("HOST", "a host")),
    env: "STATSD_HOST",
    defaultText: "localhost",
    help: "Its host.",
  },
  statsdPort: { kind: integer(1, 65_535), env: "STATSD_PORT", default: "8125", help: "Its port." },
  statsdProtocol: {
    kind: word("tcp", "udp"),
    env: "STATSD_PROTOCOL",
    default: "tcp",
    help: "Its protocol; envoyproxy/ratelimit supports only TCP.",
  },
  useDogStatsd: {
    kind: flag,
    env: "USE_DOG_STATSD",
    default: "false",
    help: "Sends metrics to a DogStatsD agent at STATSD_HOST and STATSD_PORT, by UDP; not together with USE_STATSD or USE_PROMETHEUS.",
  },
  useDogStatsdMogrifiers: {
    kind: optional(text("NAME,…", "a list of names")),
    env: "USE_DOG_STATSD_MOGRIFIERS",
    help: "Rules that rewrite names of metrics into names with tags: of each NAME, DOG_STATSD_MOGRIFIER_NAME_PATTERN (a regular expression), _NAME and _TAGS (`tag:value,…`), with `$1` for a group.",
  },
  statsFlushInterval: {
    kind: duration,
    env: "STATS_FLUSH_INTERVAL",
    default: "10s",
    help: "Interval between two flushes to statsd.",
  },
  extraTags: { kind: optional(pairs(":")), env: "EXTRA_TAGS", help: "Tags of every metric." },
} as const satisfies Settings;
