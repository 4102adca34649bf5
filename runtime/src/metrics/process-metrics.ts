/** The metrics of the process itself: processor time, memory, file descriptors, event loop and garbage collection. */
import type { MetricObjectWithValues, MetricValue, Registry } from "prom-client";
import type { HistogramFamily, HistogramPoint, Labels, MetricFamily } from "./metric-families.ts";

/** Measures this process. */
export interface ProcessWatch {
  /** Returns the metrics so far. */
  families(): Promise<readonly MetricFamily[]>;
}

/**
 * Measures this process from the first call of `families` on: a process without a scraper does without the library's
 * memory (2 MiB) and its timer, which measures the event loop each 10 ms. Call it once, in the main thread.
 */
export function watchProcess(): ProcessWatch {
  let measured: Promise<Registry> | undefined;
  return {
    async families() {
      measured ??= measure();
      return (await (await measured).getMetricsAsJSON()).map(familyOf);
    },
  };
}

async function measure(): Promise<Registry> {
  const { collectDefaultMetrics, Registry } = await import("prom-client");
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
}

type Sample = MetricValue<string> & { readonly metricName?: string };

function familyOf(metric: MetricObjectWithValues<MetricValue<string>>): MetricFamily {
  const { name, help, values } = metric;
  // The types of the library are those of its text format, as an enum without values.
  const type = String(metric.type);
  if (type === "histogram") return { name, help, type, ...histogramOf(name, values) };
  const points = values.map(({ labels, value }) => ({ labels: labelsOf(labels), value }));
  return { name, help, type: type === "counter" ? "counter" : "gauge", points };
}

/** Takes the cumulative counts of the library apart. */
function histogramOf(name: string, samples: readonly Sample[]): Pick<HistogramFamily, "bounds" | "points"> {
  const limits = new Set<number>();
  const points = new Map<string, { labels: Labels; cumulative: number[]; sum: number }>();
  for (const { metricName, labels, value } of samples) {
    const { le, ...rest } = labels;
    const key = JSON.stringify(labelsOf(rest));
    const point = points.get(key) ?? { labels: labelsOf(rest), cumulative: [], sum: 0 };
    points.set(key, point);
    if (metricName === `${name}_bucket`) point.cumulative.push(value);
    if (metricName === `${name}_sum`) point.sum = value;
    if (le !== undefined && le !== "+Inf") limits.add(Number(le));
  }
  return {
    bounds: [...limits].sort((a, b) => a - b),
    points: Array.from(points.values(), ({ labels, cumulative, sum }): HistogramPoint => {
      return { labels, sum, counts: cumulative.map((count, at) => count - (cumulative[at - 1] ?? 0)) };
    }),
  };
}

function labelsOf(labels: Readonly<Partial<Record<string, string | number>>>): Labels {
  return Object.fromEntries(Object.entries(labels).map(([label, value]) => [label, String(value)]));
}
