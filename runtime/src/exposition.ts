/** Tells metrics in the Prometheus text format, together with those of the process itself. */
import { AggregatorRegistry, collectDefaultMetrics, Registry } from "prom-client";
import { renderMarkdownTable } from "./markdown-table.ts";
import { mergeMetrics, type MetricDeclaration, type MetricsSnapshot, type MetricTable } from "./metrics.ts";

/** The `content-type` of the text. */
export const expositionContentType = Registry.PROMETHEUS_CONTENT_TYPE;

/** Begins to watch the process (processor time, memory, event loop, garbage collection); once in its main thread. */
export function watchProcess(): { readonly render: () => Promise<string> } {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return { render: () => registry.metrics() };
}

/** The metrics of the table in its order, added up over the threads. A metric that none of them has is left out. */
export function renderMetrics(table: MetricTable, snapshots: readonly MetricsSnapshot[]): Promise<string> {
  const merged = new Map(mergeMetrics(snapshots).map((family) => [family.name, family]));
  const metrics = Object.values(table).map((declaration) => {
    const series = merged.get(declaration.name)?.series ?? [];
    const values = series.flatMap(({ labels, data }) => {
      const named = Object.fromEntries(declaration.labels.map((name, at) => [name, labels[at] ?? ""]));
      return declaration.type === "histogram"
        ? histogramValues(declaration, named, data)
        : [{ value: data[0] ?? 0, labels: named }];
    });
    return { name: declaration.name, help: declaration.help, type: declaration.type, aggregator: "sum", values };
  });
  // The library takes metrics of other processes in this form; ours come from threads.
  return AggregatorRegistry.aggregate([metrics]).metrics();
}

interface ExpositionValue {
  readonly metricName: string;
  readonly value: number;
  readonly labels: Readonly<Record<string, string>>;
}

/** The format counts cumulatively: each bucket holds all values up to its bound. */
function histogramValues(
  { name, buckets = [] }: MetricDeclaration,
  labels: Readonly<Record<string, string>>,
  data: readonly number[],
): ExpositionValue[] {
  let count = 0;
  const values = [...buckets.map(String), "+Inf"].map((le, at) => {
    count += data[at] ?? 0;
    return { metricName: `${name}_bucket`, value: count, labels: { ...labels, le } };
  });
  const sum = { metricName: `${name}_sum`, value: data.at(-1) ?? 0, labels };
  return [...values, sum, { metricName: `${name}_count`, value: count, labels }];
}

/** A table for Markdown, one row per metric in the order of declaration. */
export function renderMetricTable(table: MetricTable): string {
  const rows = Object.values(table).map(({ name, type, labels, help }) => {
    const labelList = labels.length === 0 ? "–" : labels.map((label) => `\`${label}\``).join(", ");
    return [`\`${name}\``, type, labelList, help];
  });
  return renderMarkdownTable([["metric", "type", "labels", "meaning"], ...rows]);
}
