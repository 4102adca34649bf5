/**
 * Renders the counts of the service in the Prometheus text format with envoyproxy/ratelimit's names. A rule's position
 * in the configuration is in its labels: `domain`, `key1`, `key2` and so on, one per level, of any number.
 */
import { type ExpositionFamily, type ExpositionSample, renderFamilies } from "@gatewayproxy/runtime/exposition";
import type { RuleCounts } from "../stats.ts";
import type { CallTimesSnapshot } from "./call-times.ts";
import { cacheGauges, errorTypes, keysOf, responseTimeName, ruleMetrics, serviceMetrics } from "./metric-names.ts";
import type { MetricMapper } from "./prometheus-mapping.ts";
import type { SeriesSnapshot, StatsSnapshot } from "./stats-snapshot.ts";
import { statsdCounters, statsdGauges } from "./statsd-lines.ts";

/** The names, labels and units of metrics. */
export interface PrometheusOptions {
  /** Labels of every metric (EXTRA_TAGS). */
  readonly extraTags: ReadonlyMap<string, string>;
  /** Whether response times are in milliseconds, under the same name (PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS). */
  readonly timesInMilliseconds: boolean;
  /** Upper bounds of the response times that the threads measure, in seconds. */
  readonly callTimeBounds: readonly number[];
  /** Names and labels, in place of the built-in ones (PROMETHEUS_MAPPER_YAML). */
  readonly mapper?: MetricMapper;
}

/**
 * Renders all metrics. `evictedCounters` is the number of counters in memory that were
 * evicted before their window ended. Threads share them, so they are not part of `stats`.
 */
export function renderPrometheus(
  stats: StatsSnapshot,
  evictedCounters: number,
  options: PrometheusOptions,
): Promise<string> {
  const list = new FamilyList(options.extraTags);
  if (options.mapper === undefined) writeBuiltIn(list, stats, options);
  else writeMapped(list, stats, options.mapper, options.callTimeBounds);
  const evicted = "ratelimit_service_memory_counters_evicted";
  list.family(
    evicted,
    "counter",
    "Counters in memory that were evicted before their window ended; above 0 the memory is too small.",
  );
  list.sample(evicted, {}, evictedCounters);
  return renderFamilies(list.families);
}

function writeBuiltIn(list: FamilyList, stats: StatsSnapshot, options: PrometheusOptions): void {
  for (const key of keysOf(ruleMetrics)) writeRuleMetric(list, key, stats.series);
  list.family("ratelimit_service_rate_limit_domain_not_found", "counter", "Calls for a domain without limits.");
  for (const [domain, count] of stats.domainsNotFound) {
    list.sample("ratelimit_service_rate_limit_domain_not_found", { domain }, count);
  }
  list.family("ratelimit_service_should_rate_limit_error", "counter", "Calls that failed.");
  for (const key of keysOf(errorTypes)) {
    list.sample("ratelimit_service_should_rate_limit_error", { err_type: errorTypes[key] }, stats.service[key]);
  }
  for (const key of keysOf(serviceMetrics)) {
    const { prometheus, help } = serviceMetrics[key];
    list.family(prometheus, "counter", help);
    list.sample(prometheus, {}, stats.service[key]);
  }
  writeCalls(list, stats.callTimes, options);
  list.family("ratelimit_service_grpc_connections", "gauge", "Open gRPC connections.");
  list.sample("ratelimit_service_grpc_connections", {}, stats.connections);
  for (const { pool, active, opened, closed } of stats.pools) {
    list.family(`ratelimit_${pool}_cx_active`, "gauge", "Open connections to Redis.");
    list.sample(`ratelimit_${pool}_cx_active`, {}, active);
    list.family(`ratelimit_${pool}_cx_total`, "counter", "Connections to Redis opened.");
    list.sample(`ratelimit_${pool}_cx_total`, {}, opened);
    list.family(`ratelimit_${pool}_cx_local_close`, "counter", "Connections to Redis that have ended.");
    list.sample(`ratelimit_${pool}_cx_local_close`, {}, closed);
  }
  for (const { name, value, help } of stats.cache === undefined ? [] : cacheGauges(stats.cache)) {
    list.family(`ratelimit_localcache_${name}`, "gauge", help);
    list.sample(`ratelimit_localcache_${name}`, {}, value);
  }
  for (const [name, group] of Map.groupBy(stats.commands, (command) => command.name)) {
    list.family(`ratelimit_memcache_${name}`, "counter", "Commands to memcached, by outcome.");
    for (const { code, count } of group) {
      list.sample(`ratelimit_memcache_${name}`, code === undefined ? {} : { code }, count);
    }
  }
}

/** Writes counters, gauges and times by their statsd names. Series with the same name and labels are added up. */
function writeMapped(list: FamilyList, stats: StatsSnapshot, mapper: MetricMapper, bounds: readonly number[]): void {
  const families = new Map<
    string,
    { readonly type: "counter" | "gauge"; readonly help: string; readonly series: Map<string, number> }
  >();
  const add = (name: string, type: "counter" | "gauge", value: number): void => {
    const metric = mapper(name, type);
    if (metric === undefined) return;
    let family = families.get(metric.name);
    if (family === undefined) families.set(metric.name, (family = { type, help: metric.help, series: new Map() }));
    // A name has one type: that of the first metric.
    if (family.type !== type) return;
    const labels = JSON.stringify(metric.labels);
    const before = type === "counter" ? (family.series.get(labels) ?? 0) : 0;
    family.series.set(labels, before + value);
  };
  for (const [name, value] of statsdCounters(stats, new Map())) add(name, "counter", value);
  for (const [name, value] of statsdGauges(stats)) add(name, "gauge", value);
  for (const [name, { type, help, series }] of families) {
    list.family(name, type, help);
    // The keys were written above.
    for (const [labels, value] of series) list.sample(name, JSON.parse(labels) as Record<string, string>, value);
  }
  const times = mapper(responseTimeName, "observer");
  if (times === undefined || families.has(times.name)) return;
  const { name, labels, help, scale, observer } = times;
  writeTimes(list, { name, labels, help, observer, perSecond: 1_000 * scale, bounds }, stats.callTimes.histogram);
}

function writeRuleMetric(list: FamilyList, key: keyof RuleCounts, series: readonly SeriesSnapshot[]): void {
  const { prometheus, help } = ruleMetrics[key];
  list.family(prometheus, "counter", help);
  for (const { domain, segments, counts } of series) {
    const levels = segments.map((segment, index) => [`key${index + 1}`, segment] as const);
    list.sample(prometheus, { domain, ...Object.fromEntries(levels) }, counts[key]);
  }
}

const grpcMethod = { grpc_method: "ShouldRateLimit" };

function writeCalls(
  list: FamilyList,
  times: CallTimesSnapshot,
  { timesInMilliseconds, callTimeBounds }: PrometheusOptions,
): void {
  list.family("ratelimit_service_total_requests", "counter", "Calls over gRPC.");
  list.sample("ratelimit_service_total_requests", grpcMethod, times.calls);
  const name = "ratelimit_service_response_time_seconds";
  const help = "Time from the arrival of a call to its response, over gRPC.";
  const perSecond = timesInMilliseconds ? 1_000 : 1;
  const metric = { name, labels: grpcMethod, help, observer: "histogram", perSecond, bounds: callTimeBounds } as const;
  writeTimes(list, metric, times.histogram);
}

interface TimesMetric {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly help: string;
  /** A summary has a sum and a count only. */
  readonly observer: "histogram" | "summary";
  /** Value of one second in the unit of the output. */
  readonly perSecond: number;
  readonly bounds: readonly number[];
}

/** @param histogram as in `CallTimesSnapshot` */
function writeTimes(list: FamilyList, metric: TimesMetric, histogram: readonly number[]): void {
  const { name, labels, help, observer, perSecond, bounds } = metric;
  list.family(name, observer, help);
  let count = 0;
  for (const [index, bound] of [...bounds, Infinity].entries()) {
    count += histogram[index] ?? 0;
    const le = bound === Infinity ? "+Inf" : String(Number((bound * perSecond).toPrecision(6)));
    if (observer === "histogram") list.sample(`${name}_bucket`, { ...labels, le }, count);
  }
  list.sample(`${name}_sum`, labels, (histogram.at(-1) ?? 0) * perSecond);
  list.sample(`${name}_count`, labels, count);
}

/** Collects metrics, each with the samples that follow it. */
class FamilyList {
  readonly families: ExpositionFamily[] = [];
  readonly #extraTags: Readonly<Record<string, string>>;
  #samples: ExpositionSample[] = [];

  constructor(extraTags: ReadonlyMap<string, string>) {
    this.#extraTags = Object.fromEntries(Array.from(extraTags, ([name, value]) => [labelName(name), value]));
  }

  family(name: string, type: ExpositionFamily["type"], help: string): void {
    this.#samples = [];
    this.families.push({ name, type, help, samples: this.#samples });
  }

  /** @param name of the metric, with its suffix in a histogram or summary. */
  sample(name: string, labels: Readonly<Record<string, string>>, value: number): void {
    this.#samples.push({ metricName: name, labels: { ...labels, ...this.#extraTags }, value });
  }
}

function labelName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_]/g, "_").replace(/^(?=\d)/, "_");
}
