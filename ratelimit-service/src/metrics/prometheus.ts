/**
 * What the service has counted, in the Prometheus text format under the reference's names. A rule's place in the
 * configuration is its labels: `domain`, `key1`, `key2` and so on, one per level, however many there are.
 */
import type { RuleCounts } from "../stats.ts";
import { callTimeBounds, type CallTimesSnapshot } from "./call-times.ts";
import { cacheGauges, errorTypes, keysOf, ruleMetrics, serviceMetrics } from "./metric-names.ts";
import type { SeriesSnapshot, StatsSnapshot } from "./stats-snapshot.ts";

export interface PrometheusOptions {
  /** Labels of every metric (EXTRA_TAGS). */
  readonly extraTags: ReadonlyMap<string, string>;
  /** PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS */
  readonly timesInMilliseconds: boolean;
}

/**
 * The text of all metrics, ending in a line break. `evictedCounters` are counters in memory that were forgotten while
 * their window ran; they are shared by the threads, so no part of what each has counted.
 */
export function renderPrometheus(stats: StatsSnapshot, evictedCounters: number, options: PrometheusOptions): string {
  const text = new ExpositionText(options.extraTags);
  for (const key of keysOf(ruleMetrics)) writeRuleMetric(text, key, stats.series);
  text.family("ratelimit_service_rate_limit_domain_not_found", "counter", "Calls for a domain without limits.");
  for (const [domain, count] of stats.domainsNotFound) {
    text.sample("ratelimit_service_rate_limit_domain_not_found", { domain }, count);
  }
  text.family("ratelimit_service_should_rate_limit_error", "counter", "Calls that failed.");
  for (const key of keysOf(errorTypes)) {
    text.sample("ratelimit_service_should_rate_limit_error", { err_type: errorTypes[key] }, stats.service[key]);
  }
  for (const key of keysOf(serviceMetrics)) {
    const { prometheus, help } = serviceMetrics[key];
    text.family(prometheus, "counter", help);
    text.sample(prometheus, {}, stats.service[key]);
  }
  writeCalls(text, stats.callTimes, options.timesInMilliseconds);
  text.family("ratelimit_service_grpc_connections", "gauge", "Open gRPC connections.");
  text.sample("ratelimit_service_grpc_connections", {}, stats.connections);
  for (const { pool, active, opened, closed } of stats.pools) {
    text.family(`ratelimit_${pool}_cx_active`, "gauge", "Open connections to Redis.");
    text.sample(`ratelimit_${pool}_cx_active`, {}, active);
    text.family(`ratelimit_${pool}_cx_total`, "counter", "Connections to Redis opened.");
    text.sample(`ratelimit_${pool}_cx_total`, {}, opened);
    text.family(`ratelimit_${pool}_cx_local_close`, "counter", "Connections to Redis that have ended.");
    text.sample(`ratelimit_${pool}_cx_local_close`, {}, closed);
  }
  for (const { name, value, help } of stats.cache === undefined ? [] : cacheGauges(stats.cache)) {
    text.family(`ratelimit_localcache_${name}`, "gauge", help);
    text.sample(`ratelimit_localcache_${name}`, {}, value);
  }
  const evicted = "ratelimit_service_memory_counters_evicted";
  text.family(
    evicted,
    "counter",
    "Counters in memory forgotten while their window ran; above 0 the memory is too small.",
  );
  text.sample(evicted, {}, evictedCounters);
  return text.toString();
}

function writeRuleMetric(text: ExpositionText, key: keyof RuleCounts, series: readonly SeriesSnapshot[]): void {
  const { prometheus, help } = ruleMetrics[key];
  text.family(prometheus, "counter", help);
  for (const { domain, segments, counts } of series) {
    const levels = segments.map((segment, index) => [`key${index + 1}`, segment] as const);
    text.sample(prometheus, { domain, ...Object.fromEntries(levels) }, counts[key]);
  }
}

const grpcMethod = { grpc_method: "ShouldRateLimit" };

function writeCalls(text: ExpositionText, times: CallTimesSnapshot, inMilliseconds: boolean): void {
  text.family("ratelimit_service_total_requests", "counter", "Calls answered by gRPC.");
  text.sample("ratelimit_service_total_requests", grpcMethod, times.calls);
  const name = `ratelimit_service_response_time_${inMilliseconds ? "milliseconds" : "seconds"}`;
  const scale = inMilliseconds ? 1_000 : 1;
  text.family(name, "histogram", "Time from a call's arrival to its answer, by gRPC.");
  let count = 0;
  for (const [index, bound] of [...callTimeBounds, Infinity].entries()) {
    count += times.histogram[index] ?? 0;
    const le = bound === Infinity ? "+Inf" : String(Number((bound * scale).toPrecision(6)));
    text.sample(`${name}_bucket`, { ...grpcMethod, le }, count);
  }
  text.sample(`${name}_sum`, grpcMethod, (times.histogram.at(-1) ?? 0) * scale);
  text.sample(`${name}_count`, grpcMethod, count);
}

/** Writes the format's lines. */
class ExpositionText {
  readonly #extraTags: Readonly<Record<string, string>>;
  #text = "";

  constructor(extraTags: ReadonlyMap<string, string>) {
    this.#extraTags = Object.fromEntries(Array.from(extraTags, ([name, value]) => [labelName(name), value]));
  }

  family(name: string, type: "counter" | "gauge" | "histogram", help: string): void {
    this.#text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
  }

  sample(name: string, labels: Readonly<Record<string, string>>, value: number): void {
    const pairs = Object.entries({ ...labels, ...this.#extraTags }).map(
      ([label, text]) => `${label}="${escape(text)}"`,
    );
    this.#text += `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}\n`;
  }

  toString(): string {
    return this.#text;
  }
}

function escape(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}

function labelName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_]/g, "_").replace(/^(?=\d)/, "_");
}
