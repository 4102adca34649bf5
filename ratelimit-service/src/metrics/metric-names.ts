/** The metrics of the service, each declared once. Prometheus and statsd use envoyproxy/ratelimit's names. */
import type { RuleCounts, ServiceCounts } from "../stats.ts";
import type { CacheCounts } from "./stats-snapshot.ts";

/** The names of one metric in both formats. */
export interface MetricName {
  /** Last part of the statsd name, below `ratelimit.service.rate_limit.<domain>.<keys>` or `ratelimit.service`. */
  readonly statsd: string;
  readonly prometheus: string;
  /** One sentence with a full stop. */
  readonly help: string;
}

/** Counters of each rule, in hits. */
export const ruleMetrics: { readonly [K in keyof RuleCounts]: MetricName } = {
  totalHits: {
    statsd: "total_hits",
    prometheus: "ratelimit_service_rate_limit_total_hits",
    help: "Hits on a limit.",
  },
  overLimit: {
    statsd: "over_limit",
    prometheus: "ratelimit_service_rate_limit_over_limit",
    help: "Hits beyond a limit.",
  },
  nearLimit: {
    statsd: "near_limit",
    prometheus: "ratelimit_service_rate_limit_near_limit",
    help: "Hits within a limit but beyond its near limit ratio.",
  },
  withinLimit: {
    statsd: "within_limit",
    prometheus: "ratelimit_service_rate_limit_within_limit",
    help: "Hits within a limit.",
  },
  overLimitWithLocalCache: {
    statsd: "over_limit_with_local_cache",
    prometheus: "ratelimit_service_rate_limit_over_limit_with_local_cache",
    help: "Hits beyond a limit that were denied without a query to the store.",
  },
  shadowMode: {
    statsd: "shadow_mode",
    prometheus: "ratelimit_service_rate_limit_shadow_mode",
    help: "Hits beyond a limit that its shadow mode allowed.",
  },
  totalNegativeHits: {
    statsd: "total_negative_hits",
    prometheus: "ratelimit_service_rate_limit_total_negative_hits",
    help: "Hits refunded to a limit.",
  },
};

/** Counters of the service as a whole; the two kinds of errors are one metric in Prometheus, by `err_type`. */
export const serviceMetrics: { readonly [K in Exclude<keyof ServiceCounts, ErrorCount>]: MetricName } = {
  degraded: {
    statsd: "degraded",
    prometheus: "ratelimit_service_degraded",
    help: "Calls decided without the shared counters while the store was unavailable.",
  },
  configLoadSuccess: {
    statsd: "config_load_success",
    prometheus: "ratelimit_service_config_load_success",
    help: "Configurations loaded without a problem.",
  },
  configLoadError: {
    statsd: "config_load_error",
    prometheus: "ratelimit_service_config_load_error",
    help: "Configurations loaded with problems; the last valid version stays in use.",
  },
  globalShadowMode: {
    statsd: "global_shadow_mode",
    prometheus: "ratelimit_service_global_shadow_mode",
    help: "Calls over a limit that SHADOW_MODE allowed.",
  },
  countersDeleted: {
    statsd: "counters_deleted",
    prometheus: "ratelimit_service_counters_deleted",
    help: "Counters deleted by operators.",
  },
  countersSet: {
    statsd: "counters_set",
    prometheus: "ratelimit_service_counters_set",
    help: "Counters set by operators.",
  },
  spansExported: {
    statsd: "trace_spans_exported",
    prometheus: "ratelimit_service_trace_spans_exported",
    help: "Spans that the collector took.",
  },
  spansFailed: {
    statsd: "trace_spans_failed",
    prometheus: "ratelimit_service_trace_spans_failed",
    help: "Spans that the collector did not take.",
  },
  spansDropped: {
    statsd: "trace_spans_dropped",
    prometheus: "ratelimit_service_trace_spans_dropped",
    help: "Spans that were dropped because the queue was full.",
  },
  logRecordsExported: {
    statsd: "log_records_exported",
    prometheus: "ratelimit_service_log_records_exported",
    help: "Lines of the log that the collector took as records of OTLP.",
  },
  logRecordsFailed: {
    statsd: "log_records_failed",
    prometheus: "ratelimit_service_log_records_failed",
    help: "Lines of the log that the collector did not take.",
  },
  logRecordsDropped: {
    statsd: "log_records_dropped",
    prometheus: "ratelimit_service_log_records_dropped",
    help: "Lines of the log that were dropped because the queue of the export was full.",
  },
};

/**
 * Returns the gauges of the over-limit cache, below `ratelimit.localcache`; counts since the start, except the entries.
 */
export function cacheGauges(cache: CacheCounts): readonly { name: string; value: number; help: string }[] {
  const { entries, hits, misses, overwritten, evicted, expired } = cache;
  return [
    { name: "entryCount", value: entries, help: "Counters known to be over their limit." },
    { name: "hitCount", value: hits, help: "Counters found in the local cache." },
    { name: "missCount", value: misses, help: "Counters not found in the local cache." },
    { name: "lookupCount", value: hits + misses, help: "Lookups in the local cache." },
    { name: "overwriteCount", value: overwritten, help: "Entries of the local cache that were overwritten." },
    { name: "evacuateCount", value: evicted, help: "Entries of the local cache that were evicted for others." },
    { name: "expiredCount", value: expired, help: "Entries of the local cache removed after their window." },
  ];
}

/** Name of the response times in statsd. */
export const responseTimeName = "ratelimit_server.ShouldRateLimit.response_time";

/** Kinds of failed calls. */
export type ErrorCount = "storeError" | "serviceError";

/** Their names, in statsd and as `err_type`: envoyproxy/ratelimit's, whatever the store is. */
export const errorTypes: { readonly [K in ErrorCount]: string } = {
  storeError: "redis_error",
  serviceError: "service_error",
};

/** Returns the keys of one of these tables, with their type. */
export function keysOf<T extends object>(table: T): readonly (keyof T)[] {
  // A table has no keys but its own.
  return Object.keys(table) as (keyof T)[];
}
