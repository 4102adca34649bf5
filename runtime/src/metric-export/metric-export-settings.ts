/** The variables of the OpenTelemetry specification that configure the export of metrics. */
import type { HistogramKind } from "../metrics/metric-families.ts";
import type { Result } from "../text/problem.ts";
import { type Environment, type OtlpProtocol, VariableReader } from "../tracing/otel-variables.ts";

/** Whether exported counts are those since the start, or since the last export. */
export type Temporality = "cumulative" | "delta";

/** The settings of the export. */
export interface MetricExportSettings {
  readonly protocol: OtlpProtocol;
  readonly intervalMs: number;
  /** At most `intervalMs`, so that no two exports are in progress. */
  readonly timeoutMs: number;
  readonly temporality: Temporality;
  /** Native ones are exported as exponential histograms. */
  readonly histograms: HistogramKind;
  /** Of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, with the defaults of the program. */
  readonly resource: Readonly<Record<string, string>>;
}

/** The defaults that differ between programs. */
export interface MetricExportDefaults {
  /** Whether OTEL_EXPORTER_OTLP_METRICS_ENDPOINT alone switches the export on. */
  readonly endpointSwitchesOn: boolean;
  readonly protocol?: OtlpProtocol;
  /** Attributes of the resource, such as `service.name`; variables override them. */
  readonly resource: Readonly<Record<string, string>>;
}

const exporter = "OTEL_METRICS_EXPORTER";
const interval = "OTEL_METRIC_EXPORT_INTERVAL";
const timeout = "OTEL_METRIC_EXPORT_TIMEOUT";
const preference = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
const aggregation = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION";
const explicitBuckets = "explicit_bucket_histogram";
const exponentialBuckets = "base2_exponential_bucket_histogram";
const dayMs = 86_400_000;

/** Reads the settings of the export; `value` is undefined if it is off. */
export function readMetricExportSettings(
  env: Environment,
  defaults: MetricExportDefaults,
): Result<MetricExportSettings | undefined> {
  const reader = new VariableReader(env);
  const isOn = readExporter(reader, defaults) && reader.boolean("OTEL_SDK_DISABLED") !== true;
  const settings: MetricExportSettings = {
    protocol: reader.exporter("METRICS", defaults.protocol ?? "http/protobuf"),
    ...readTimes(reader),
    temporality: readTemporality(reader),
    histograms: readHistograms(reader),
    resource: reader.resource(defaults.resource),
  };
  // Variables of metrics that are off must not prevent a start: they may be those of a whole cluster.
  if (!isOn) return reader.problemsOf(exporter) ?? { ok: true, value: undefined };
  return reader.problems.length > 0 ? { ok: false, problems: reader.problems } : { ok: true, value: settings };
}

/** `prometheus` is accepted because the scrape endpoint does not depend on it. */
function readExporter(reader: VariableReader, { endpointSwitchesOn }: MetricExportDefaults): boolean {
  const exporters = reader.list(exporter);
  const isKnown = exporters.every((name) => name === "otlp" || name === "prometheus" || name === "none");
  if (!isKnown || (exporters.includes("none") && exporters.length > 1)) {
    reader.reject(exporter, "one of otlp, prometheus, none, or otlp,prometheus");
    return false;
  }
  if (exporters.length > 0) return exporters.includes("otlp");
  return endpointSwitchesOn && reader.text("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") !== undefined;
}

function readTimes(reader: VariableReader): Pick<MetricExportSettings, "intervalMs" | "timeoutMs"> {
  const intervalMs = reader.integer(interval, 1, dayMs) ?? 60_000;
  const timeoutMs = reader.integer(timeout, 1, dayMs);
  if (timeoutMs !== undefined && timeoutMs > intervalMs) {
    reader.reject(timeout, `at most ${interval}, which is ${intervalMs}`);
  }
  return { intervalMs, timeoutMs: timeoutMs ?? Math.min(30_000, intervalMs) };
}

function readHistograms(reader: VariableReader): HistogramKind {
  const value = reader.text(aggregation)?.toLowerCase() ?? explicitBuckets;
  if (value === exponentialBuckets) return "native";
  if (value !== explicitBuckets) reader.reject(aggregation, `one of ${explicitBuckets}, ${exponentialBuckets}`);
  return "classic";
}

/** All counters and histograms here are synchronous instruments, for which `lowmemory` is `delta`. */
function readTemporality(reader: VariableReader): Temporality {
  const value = reader.text(preference)?.toLowerCase() ?? "cumulative";
  if (value === "delta" || value === "lowmemory") return "delta";
  if (value !== "cumulative") reader.reject(preference, "one of cumulative, delta, lowmemory");
  return "cumulative";
}
