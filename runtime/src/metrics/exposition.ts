/** Renders metrics in the Prometheus text format, with the metrics of the process itself. */
import { AggregatorRegistry, collectDefaultMetrics, Registry } from "prom-client";
import { renderMarkdownTable } from "../text/markdown-table.ts";
import {
  mergeMetrics,
  type MetricDeclaration,
  type MetricsSnapshot,
  type MetricTable,
  type SeriesBound,
  type SeriesSnapshot,
} from "./metrics.ts";

/** The `content-type` of the Prometheus text format. */
export const expositionContentType = Registry.PROMETHEUS_CONTENT_TYPE;

/** Starts to collect processor time, memory, event loop and garbage collection metrics. Call it once, in the main thread. */
export function watchProcess(): { readonly render: () => Promise<string> } {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return { render: () => registry.metrics() };
}

/** A metric with its samples. */
export interface ExpositionFamily {
  readonly name: string;
  /** A summary has a sum and a count only. */
  readonly type: "counter" | "gauge" | "histogram" | "summary";
  readonly help: string;
  readonly samples: readonly ExpositionSample[];
}

/** A line of the output. */
export interface ExpositionSample {
  /** The name of the metric, with its suffix in a histogram or summary. */
  readonly metricName: string;
  readonly value: number;
  readonly labels: Readonly<Record<string, string>>;
}

/** Renders metrics in their order. Samples with the same name and labels are added up. */
export function renderFamilies(families: readonly ExpositionFamily[]): Promise<string> {
  const metrics = families.map(({ samples, ...family }) => ({ ...family, aggregator: "sum", values: samples }));
  // The library takes metrics of other processes in this form.
  return AggregatorRegistry.aggregate([metrics]).metrics();
}

/**
 * Renders the metrics of the table in its order, summed over the threads. A metric that no thread has is left out.
 *
 * @param bound bounds the series of each metric; one for all scrapes. Default: unbounded.
 */
export function renderMetrics(
  table: MetricTable,
  snapshots: readonly MetricsSnapshot[],
  bound?: SeriesBound,
): Promise<string> {
  const merged = new Map(mergeMetrics(snapshots).map((family) => [family.name, family]));
  const families = Object.values(table).map((declaration): ExpositionFamily => {
    const exposed = exposedSeries(declaration, merged.get(declaration.name)?.series ?? []);
    const names = exposedLabels(declaration);
    const series = bound === undefined ? exposed : bound.bounded(declaration, exposed);
    const samples = series.flatMap(({ labels, data }): ExpositionSample[] => {
      const named = Object.fromEntries(names.map((name, at) => [name, labels[at] ?? ""]));
      return declaration.type === "histogram"
        ? histogramValues(declaration, named, data)
        : [{ metricName: declaration.name, value: data[0] ?? 0, labels: named }];
    });
    return { name: declaration.name, help: declaration.help, type: declaration.type, samples };
  });
  return renderFamilies(families);
}

function exposedLabels({ labels, summedLabels = [] }: MetricDeclaration): readonly string[] {
  return labels.filter((label) => !summedLabels.includes(label));
}

/** Adds up the series over labels that are not exposed. */
function exposedSeries(declaration: MetricDeclaration, series: readonly SeriesSnapshot[]): readonly SeriesSnapshot[] {
  const { name, labels: declared, summedLabels = [] } = declaration;
  if (summedLabels.length === 0) return series;
  const isExposed = (_: string, at: number) => !summedLabels.includes(declared[at] ?? "");
  const reduced = series.map(({ labels, data }) => ({ labels: labels.filter(isExposed), data }));
  return mergeMetrics([[{ name, series: reduced }]])[0]?.series ?? [];
}

/** Makes the counts cumulative, as the format requires: each bucket counts all values up to its bound. */
function histogramValues(
  { name, buckets = [] }: MetricDeclaration,
  labels: Readonly<Record<string, string>>,
  data: readonly number[],
): ExpositionSample[] {
  let count = 0;
  const values = [...buckets.map(String), "+Inf"].map((le, at) => {
    count += data[at] ?? 0;
    return { metricName: `${name}_bucket`, value: count, labels: { ...labels, le } };
  });
  const sum = { metricName: `${name}_sum`, value: data.at(-1) ?? 0, labels };
  return [...values, sum, { metricName: `${name}_count`, value: count, labels }];
}

/** Renders a Markdown table with one row per metric, in the order of declaration. */
export function renderMetricTable(table: MetricTable): string {
  const rows = Object.values(table).map((declaration) => {
    const { name, type, help } = declaration;
    const labels = exposedLabels(declaration);
    const labelList = labels.length === 0 ? "–" : labels.map((label) => `\`${label}\``).join(", ");
    return [`\`${name}\``, type, labelList, help];
  });
  return renderMarkdownTable([["metric", "type", "labels", "meaning"], ...rows]);
}
