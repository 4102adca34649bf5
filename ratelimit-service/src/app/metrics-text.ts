/** The texts of `/metrics` and `/stats`, gathered from all threads. */
import type { watchProcess } from "@gatewayproxy/runtime/exposition";
import { type PrometheusOptions, renderPrometheus } from "../metrics/prometheus.ts";
import { mergeStats, type StatsSnapshot } from "../metrics/stats-snapshot.ts";
import { statsdCounters, statsdGauges } from "../metrics/statsd-lines.ts";

export interface MetricsTextOptions extends PrometheusOptions {
  /** What each thread has counted. */
  readonly collect: () => Promise<readonly StatsSnapshot[]>;
  /** Counters in memory that were forgotten while their window ran. */
  readonly evictedCounters: () => number;
  readonly process: ReturnType<typeof watchProcess>;
}

export class MetricsText {
  readonly #options: MetricsTextOptions;

  constructor(options: MetricsTextOptions) {
    this.#options = options;
  }

  /** For Prometheus, with the metrics of the process. */
  async prometheus(): Promise<string> {
    const { collect, process, evictedCounters } = this.#options;
    const stats = mergeStats(await collect());
    return renderPrometheus(stats, evictedCounters(), this.#options) + (await process.render());
  }

  /** One `name: value` a line, under the names that statsd has, sorted. */
  async plain(): Promise<string> {
    const stats = mergeStats(await this.#options.collect());
    const values = [...statsdCounters(stats, this.#options.extraTags), ...statsdGauges(stats)];
    return Array.from(values, ([name, value]) => `${name}: ${value}\n`)
      .sort()
      .join("");
  }
}
