/** The texts of `/metrics` and `/stats`, with the counts of all threads. */
import type { watchProcess } from "@gatewayproxy/runtime/exposition";
import { type PrometheusOptions, renderPrometheus } from "../metrics/prometheus.ts";
import { mergeStats, type StatsSnapshot } from "../metrics/stats-snapshot.ts";
import { statsdCounters, statsdGauges } from "../metrics/statsd-lines.ts";

/** The sources of the counts, and the names and labels of metrics. */
export interface MetricsTextOptions extends PrometheusOptions {
  /** Collects the counts of each thread. */
  readonly collect: () => Promise<readonly StatsSnapshot[]>;
  /** Counters in memory that were evicted before their window ended. */
  readonly evictedCounters: () => number;
  /** Measures CPU, memory and the event loop of the process. */
  readonly process: ReturnType<typeof watchProcess>;
}

/** The two texts, rendered for each request. */
export class MetricsText {
  readonly #options: MetricsTextOptions;

  constructor(options: MetricsTextOptions) {
    this.#options = options;
  }

  /** Renders the Prometheus text, with the metrics of the process. */
  async prometheus(): Promise<string> {
    const { collect, process, evictedCounters } = this.#options;
    const stats = mergeStats(await collect());
    return (await renderPrometheus(stats, evictedCounters(), this.#options)) + (await process.render());
  }

  /** Renders one `name: value` per line, sorted, with the names that statsd uses. */
  async plain(): Promise<string> {
    const stats = mergeStats(await this.#options.collect());
    const values = [...statsdCounters(stats, this.#options.extraTags), ...statsdGauges(stats)];
    return Array.from(values, ([name, value]) => `${name}: ${value}\n`)
      .sort()
      .join("");
  }
}
