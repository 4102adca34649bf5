/** Renders metrics as text for Prometheus: its own format, or OpenMetrics, which has exemplars. */
import type { Metric, RegistryContentType } from "prom-client";
import { renderMarkdownTable } from "../text/markdown-table.ts";
import { countOf, exposedLabels, type HistogramFamily, type MetricFamily } from "./metric-families.ts";
import type { Exemplar, MetricTable } from "./metrics.ts";

/** A format of `/metrics`. */
export type ExpositionFormat = "text" | "openmetrics" | "protobuf";

/** The `content-type` of each format. */
export const expositionContentTypes: Readonly<Record<ExpositionFormat, string>> = {
  text: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
  protobuf: "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
};

const openMetricsVersions: ReadonlySet<string> = new Set(["1.0.0", "0.0.1"]);

/** What a media range accepts, with its parameters in lower case. */
function acceptedBy(type: string, parameters: ReadonlyMap<string, string>): ExpositionFormat | undefined {
  switch (type) {
    case "text/plain":
      return "text";
    case "application/openmetrics-text":
      return openMetricsVersions.has(parameters.get("version") ?? "1.0.0") ? "openmetrics" : undefined;
    case "application/vnd.google.protobuf": {
      const isMetrics = parameters.get("proto") === "io.prometheus.client.metricfamily";
      return isMetrics && parameters.get("encoding") === "delimited" ? "protobuf" : undefined;
    }
    default:
      return undefined;
  }
}

/**
 * Returns the format that a scraper prefers (RFC 9110 §12.5.1), and of equally good ones the one that says more.
 * Without a preference it is the text format, which every scraper reads.
 */
export function formatOf(accept: string | undefined): ExpositionFormat {
  const qualities = { text: 0, openmetrics: 0, protobuf: 0 };
  for (const item of accept?.split(",") ?? []) {
    const [type = "", ...rest] = item.split(";").map((part) => part.trim().toLowerCase());
    const parameters = new Map(
      rest.map((parameter) => {
        const [name = "", value = ""] = parameter.split("=");
        return [name, value];
      }),
    );
    const format = acceptedBy(type, parameters);
    if (format !== undefined) qualities[format] = Math.max(qualities[format], Number(parameters.get("q") ?? 1) || 0);
  }
  const best = Math.max(...Object.values(qualities));
  if (best === 0) return "text";
  return (["protobuf", "openmetrics", "text"] as const).find((format) => qualities[format] === best) ?? "text";
}

/** A sample in the form of the library. */
interface Sample {
  readonly metricName?: string;
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly exemplar?: {
    readonly labelSet: Readonly<Record<string, string>>;
    readonly value: number;
    /** In seconds. */
    readonly timestamp: number;
  };
}

/** A format of text. */
type TextFormat = Exclude<ExpositionFormat, "protobuf">;

/** Renders metrics in their order, without those that have no series. */
export async function renderFamilies(families: readonly MetricFamily[], format: TextFormat = "text"): Promise<string> {
  // Loaded by the first scrape: it takes 2 MiB.
  const { Registry } = await import("prom-client");
  const registry = new Registry<RegistryContentType>();
  if (format === "openmetrics") registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  for (const family of families) {
    if (family.points.length === 0) continue;
    const { name, help } = family;
    const values = samplesOf(family);
    // For OpenMetrics, the library changes the name of the object that `get` returns.
    const metric = { name, help, type: typeIn(format, family), values, get: () => Promise.resolve(metric) };
    // It renders whatever has these members; its types know only its own classes.
    registry.registerMetric(metric as unknown as Metric);
  }
  return registry.metrics();
}

/**
 * In OpenMetrics, samples of a counter end in `_total`. Another counter keeps its name, as a metric of unknown type.
 */
function typeIn(format: TextFormat, { name, type }: MetricFamily): string {
  return format === "openmetrics" && type === "counter" && !name.endsWith("_total") ? "unknown" : type;
}

function samplesOf(family: MetricFamily): readonly Sample[] {
  return "bounds" in family ? histogramSamples(family) : family.points;
}

/** Makes the counts cumulative, as the formats require: each bucket counts all values up to its bound. */
function histogramSamples({ name, type, bounds, points }: HistogramFamily): readonly Sample[] {
  const limits = type === "histogram" ? [...bounds.map(String), "+Inf"] : [];
  return points.flatMap(({ labels, counts, sum, exemplars }): readonly Sample[] => {
    let count = 0;
    const buckets = limits.map((le, at): Sample => {
      count += counts[at] ?? 0;
      const exemplar = exemplars?.[at];
      return {
        metricName: `${name}_bucket`,
        value: count,
        labels: { ...labels, le },
        ...(exemplar !== undefined && { exemplar: exemplarSample(exemplar) }),
      };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, value: sum, labels },
      { metricName: `${name}_count`, value: countOf({ counts }), labels },
    ];
  });
}

function exemplarSample({ traceId, spanId, value, atMs }: Exemplar): NonNullable<Sample["exemplar"]> {
  return { labelSet: { trace_id: traceId, span_id: spanId }, value, timestamp: atMs / 1_000 };
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
