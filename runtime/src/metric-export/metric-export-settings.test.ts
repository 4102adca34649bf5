import { describe, expect, test } from "vitest";
import type { Environment } from "../tracing/otel-variables.ts";
import { type MetricExportDefaults, readMetricExportSettings } from "./metric-export-settings.ts";

const defaults: MetricExportDefaults = { endpointSwitchesOn: true, resource: { "service.name": "gateway-proxy" } };

function settingsOf(env: Environment, given = defaults) {
  const read = readMetricExportSettings(env, given);
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  return read.value;
}

function problemsOf(env: Environment): readonly string[] {
  const read = readMetricExportSettings({ OTEL_METRICS_EXPORTER: "otlp", ...env }, defaults);
  return read.ok ? [] : read.problems.map(({ path = "", message }) => `${path}: ${message}`);
}

describe("metrics are exported", () => {
  const isOn = (env: Environment, given = defaults): boolean => settingsOf(env, given) !== undefined;

  test("with the exporter, or with an endpoint of metrics where the program says so", () => {
    expect(isOn({ OTEL_METRICS_EXPORTER: "otlp" })).toBe(true);
    expect(isOn({ OTEL_METRICS_EXPORTER: "otlp,prometheus" })).toBe(true);
    expect(isOn({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://c:4318/v1/metrics" })).toBe(true);
    const never = { ...defaults, endpointSwitchesOn: false };
    expect(isOn({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://c:4318/v1/metrics" }, never)).toBe(false);
  });

  test("not without variables, nor with an endpoint that is that of traces, too", () => {
    expect(isOn({})).toBe(false);
    expect(isOn({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://c:4318", OTEL_TRACES_EXPORTER: "otlp" })).toBe(false);
    expect(isOn({ OTEL_METRICS_EXPORTER: "prometheus" })).toBe(false);
    const endpoint = { OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://c:4318" };
    expect(isOn({ ...endpoint, OTEL_METRICS_EXPORTER: "none" })).toBe(false);
    expect(isOn({ ...endpoint, OTEL_SDK_DISABLED: "true" })).toBe(false);
  });

  test("and what is switched off does not prevent a start", () => {
    expect(isOn({ OTEL_METRIC_EXPORT_INTERVAL: "soon", OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" })).toBe(false);
  });
});

test("the defaults are those of the specification", () => {
  expect(settingsOf({ OTEL_METRICS_EXPORTER: "otlp" })).toEqual({
    protocol: "http/protobuf",
    intervalMs: 60_000,
    timeoutMs: 30_000,
    temporality: "cumulative",
    histograms: "classic",
    resource: { "service.name": "gateway-proxy" },
  });
});

test("every variable is read, and one of metrics takes precedence", () => {
  const env = {
    OTEL_METRICS_EXPORTER: "otlp",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
    OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "grpc",
    OTEL_METRIC_EXPORT_INTERVAL: "5000",
    OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "Delta",
    OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION: "base2_exponential_bucket_histogram",
    OTEL_RESOURCE_ATTRIBUTES: "team=a%2Cb",
    OTEL_SERVICE_NAME: "edge",
  };
  expect(settingsOf(env)).toEqual({
    protocol: "grpc",
    intervalMs: 5_000,
    timeoutMs: 5_000,
    temporality: "delta",
    histograms: "native",
    resource: { "service.name": "edge", team: "a,b" },
  });
  expect(settingsOf({ ...env, OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "lowmemory" })?.temporality).toBe(
    "delta",
  );
});

test("each problem names the variable, the value and what is accepted", () => {
  expect(problemsOf({ OTEL_METRICS_EXPORTER: "statsd" })).toEqual([
    'OTEL_METRICS_EXPORTER: "statsd" is not one of otlp, prometheus, none, or otlp,prometheus',
  ]);
  expect(problemsOf({ OTEL_METRIC_EXPORT_INTERVAL: "1000", OTEL_METRIC_EXPORT_TIMEOUT: "2000" })).toEqual([
    'OTEL_METRIC_EXPORT_TIMEOUT: "2000" is not at most OTEL_METRIC_EXPORT_INTERVAL, which is 1000',
  ]);
  expect(
    problemsOf({
      OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "sometimes",
      OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION: "sparse",
      OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "http/json",
    }),
  ).toEqual([
    'OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "http/json" is not one of grpc, http/protobuf',
    'OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: "sometimes" is not one of cumulative, delta, lowmemory',
    'OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION: "sparse" is not one of explicit_bucket_histogram, base2_exponential_bucket_histogram',
  ]);
  expect(problemsOf({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "collector" })).toHaveLength(1);
});
