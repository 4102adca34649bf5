/** The metrics of the service with the counts of all threads, and the text of `/stats`. */
import type { HistogramKind, MetricFamily } from "@gatewayproxy/runtime/metric-families";
import type { ProcessWatch } from "@gatewayproxy/runtime/process-metrics";
import { type PrometheusOptions, prometheusFamilies } from "../metrics/prometheus.ts";
import { mergeStats, type StatsSnapshot } from "../metrics/stats-snapshot.ts";
import { statsdCounters, statsdGauges } from "../metrics/statsd-lines.ts";

/** The sources of the counts, and the names and labels of metrics. */
export interface ServiceMetricsOptions extends PrometheusOptions {
  /** Collects the counts of each thread. Threads keep native histograms once they were asked for them. */
  readonly collect: (histograms: HistogramKind) => Promise<readonly StatsSnapshot[]>;
  /** Counters in memory that were evicted before their window ended. */
  readonly evictedCounters: () => number;
  /** Measures CPU, memory and the event loop of the process. */
  readonly process: ProcessWatch;
}

/** The metrics, collected for each request or export. */
export class ServiceMetrics {
  readonly #options: ServiceMetricsOptions;

  constructor(options: ServiceMetricsOptions) {
    this.#options = options;
  }

  /** Returns the metrics with the names of Prometheus, and those of the process. */
  async families(histograms: HistogramKind): Promise<readonly MetricFamily[]> {
    const { collect, process, evictedCounters } = this.#options;
    const stats = mergeStats(await collect(histograms));
    return [...prometheusFamilies(stats, evictedCounters(), this.#options), ...(await process.families())];
  }

  /** Renders one `name: value` per line, sorted, with the names that statsd uses. */
  async plain(): Promise<string> {
    const stats = mergeStats(await this.#options.collect("classic"));
    const values = [...statsdCounters(stats, this.#options.extraTags), ...statsdGauges(stats)];
    return Array.from(values, ([name, value]) => `${name}: ${value}\n`)
      .sort()
      .join("");
  }
}
