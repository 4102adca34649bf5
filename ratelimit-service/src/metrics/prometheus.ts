/**
 * The counts of the service as metrics with envoyproxy/ratelimit's names. A rule's position in the configuration is in
 * its labels: `domain`, `key1`, `key2` and so on, one per level, of any number.
 */
import {
  allInExponentialBuckets,
  type HistogramFamily,
  histogramOf,
  type HistogramPoint,
  type Labels,
  type MetricFamily,
  type NumberPoint,
} from "@gatewayproxy/runtime/metric-families";
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
 * Returns all metrics. `evictedCounters` is the number of counters in memory that were
 * evicted before their window ended. Threads share them, so they are not part of `stats`.
 */
export function prometheusFamilies(
  stats: StatsSnapshot,
  evictedCounters: number,
  options: PrometheusOptions,
): readonly MetricFamily[] {
  const list = new FamilyList(options.extraTags);
  if (options.mapper === undefined) writeBuiltIn(list, stats, options);
  else writeMapped(list, stats, options.mapper, options.callTimeBounds);
  const evicted = "ratelimit_service_memory_counters_evicted";
  list.family(
    evicted,
    "counter",
    "Counters in memory that were evicted before their window ended; above 0 the memory is too small.",
  );
  list.sample({}, evictedCounters);
  return list.families;
}

function writeBuiltIn(list: FamilyList, stats: StatsSnapshot, options: PrometheusOptions): void {
  for (const key of keysOf(ruleMetrics)) writeRuleMetric(list, key, stats.series);
  list.family("ratelimit_service_rate_limit_domain_not_found", "counter", "Calls for a domain without limits.");
  for (const [domain, count] of stats.domainsNotFound) {
    list.sample({ domain }, count);
  }
  list.family("ratelimit_service_should_rate_limit_error", "counter", "Calls that failed.");
  for (const key of keysOf(errorTypes)) {
    list.sample({ err_type: errorTypes[key] }, stats.service[key]);
  }
  for (const key of keysOf(serviceMetrics)) {
    const { prometheus, help } = serviceMetrics[key];
    list.family(prometheus, "counter", help);
    list.sample({}, stats.service[key]);
  }
  writeCalls(list, stats.callTimes, options);
  list.family("ratelimit_service_grpc_connections", "gauge", "Open gRPC connections.");
  list.sample({}, stats.connections);
  for (const { pool, active, opened, closed } of stats.pools) {
    list.family(`ratelimit_${pool}_cx_active`, "gauge", "Open connections to Redis.");
    list.sample({}, active);
    list.family(`ratelimit_${pool}_cx_total`, "counter", "Connections to Redis opened.");
    list.sample({}, opened);
    list.family(`ratelimit_${pool}_cx_local_close`, "counter", "Connections to Redis that have ended.");
    list.sample({}, closed);
  }
  for (const { name, value, help } of stats.cache === undefined ? [] : cacheGauges(stats.cache)) {
    list.family(`ratelimit_localcache_${name}`, "gauge", help);
    list.sample({}, value);
  }
  for (const [name, group] of Map.groupBy(stats.commands, (command) => command.name)) {
    list.family(`ratelimit_memcache_${name}`, "counter", "Commands to memcached, by outcome.");
    for (const { code, count } of group) {
      list.sample(code === undefined ? {} : { code }, count);
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
    for (const [labels, value] of series) list.sample(JSON.parse(labels) as Record<string, string>, value);
  }
  const times = mapper(responseTimeName, "observer");
  if (times === undefined || families.has(times.name)) return;
  const { name, labels, help, scale, observer } = times;
  writeTimes(list, { name, labels, help, observer, perSecond: 1_000 * scale, bounds }, stats.callTimes);
}

function writeRuleMetric(list: FamilyList, key: keyof RuleCounts, series: readonly SeriesSnapshot[]): void {
  const { prometheus, help } = ruleMetrics[key];
  list.family(prometheus, "counter", help);
  for (const { domain, segments, counts } of series) {
    const levels = segments.map((segment, index) => [`key${index + 1}`, segment] as const);
    list.sample({ domain, ...Object.fromEntries(levels) }, counts[key]);
  }
}

const grpcMethod = { grpc_method: "ShouldRateLimit" };

function writeCalls(
  list: FamilyList,
  times: CallTimesSnapshot,
  { timesInMilliseconds, callTimeBounds }: PrometheusOptions,
): void {
  list.family("ratelimit_service_total_requests", "counter", "Calls over gRPC.");
  list.sample(grpcMethod, times.calls);
  const name = "ratelimit_service_response_time_seconds";
  const help = "Time from the arrival of a call to its response, over gRPC.";
  const perSecond = timesInMilliseconds ? 1_000 : 1;
  const metric = { name, labels: grpcMethod, help, observer: "histogram", perSecond, bounds: callTimeBounds } as const;
  writeTimes(list, metric, times);
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

function writeTimes(list: FamilyList, metric: TimesMetric, { histogram, exemplars, native }: CallTimesSnapshot): void {
  const { name, labels, help, observer: type, perSecond, bounds } = metric;
  const { counts, sum } = histogramOf(histogram);
  list.histogram(
    { name, help, type, bounds: bounds.map((bound) => Number((bound * perSecond).toPrecision(6))) },
    {
      labels,
      counts,
      sum: sum * perSecond,
      // Exponential buckets of seconds are none of another unit.
      native: perSecond === 1 && native !== undefined ? allInExponentialBuckets(bounds, counts, native) : undefined,
      exemplars: exemplars?.map((exemplar) => exemplar && { ...exemplar, value: exemplar.value * perSecond }),
    },
  );
}

/** Collects metrics, each with the samples that follow it. Samples with the same name and labels are added up. */
class FamilyList {
  readonly families: MetricFamily[] = [];
  readonly #extraTags: Labels;
  #points: NumberPoint[] = [];
  /** The index of each label set in `#points`. */
  #places = new Map<string, number>();

  constructor(extraTags: ReadonlyMap<string, string>) {
    this.#extraTags = Object.fromEntries(Array.from(extraTags, ([name, value]) => [labelName(name), value]));
  }

  family(name: string, type: "counter" | "gauge", help: string): void {
    this.#points = [];
    this.#places = new Map();
    this.families.push({ name, type, help, points: this.#points });
  }

  /** Adds a sample of the last family. */
  sample(labels: Labels, value: number): void {
    const point = { labels: { ...labels, ...this.#extraTags }, value };
    const key = JSON.stringify(point.labels);
    const place = this.#places.get(key);
    if (place === undefined) this.#places.set(key, this.#points.push(point) - 1);
    else this.#points[place] = { ...point, value: value + (this.#points[place]?.value ?? 0) };
  }

  histogram(family: Omit<HistogramFamily, "points">, point: HistogramPoint): void {
    this.families.push({ ...family, points: [{ ...point, labels: { ...point.labels, ...this.#extraTags } }] });
  }
}

function labelName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_]/g, "_").replace(/^(?=\d)/, "_");
}
