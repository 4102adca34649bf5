import { describe, expect, test } from "vitest";
import type { Environment } from "./otel-variables.ts";
import { readTracingSettings, type TracingDefaults } from "./tracing-settings.ts";

const defaults: TracingDefaults = { endpointSwitchesOn: true, resource: { "service.name": "gateway-proxy" } };
const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };

function settingsOf(env: Environment) {
  const read = readTracingSettings({ ...endpoint, ...env }, defaults);
  if (!read.ok || read.value === undefined) throw new Error(JSON.stringify(read));
  return read.value;
}

function problemsOf(env: Environment): readonly string[] {
  const read = readTracingSettings({ ...endpoint, ...env }, defaults);
  return read.ok ? [] : read.problems.map(({ path = "", message }) => `${path}: ${message}`);
}

describe("traces are", () => {
  const isOn = (env: Environment, given = defaults): boolean => {
    const read = readTracingSettings(env, given);
    return read.ok && read.value !== undefined;
  };

  test("off without variables", () => {
    expect(isOn({})).toBe(false);
    expect(isOn({ OTEL_SERVICE_NAME: "shop", OTEL_TRACES_SAMPLER: "always_on" })).toBe(false);
  });

  test("on with an exporter, or with an endpoint where the program says so", () => {
    expect(isOn({ OTEL_TRACES_EXPORTER: "otlp" })).toBe(true);
    expect(isOn(endpoint)).toBe(true);
    expect(isOn(endpoint, { ...defaults, endpointSwitchesOn: false })).toBe(false);
  });

  test("off with `none`, or with the SDK disabled", () => {
    expect(isOn({ ...endpoint, OTEL_TRACES_EXPORTER: "none" })).toBe(false);
    expect(isOn({ ...endpoint, OTEL_SDK_DISABLED: "true" })).toBe(false);
  });
});

test("the defaults are those of the specification", () => {
  expect(settingsOf({})).toEqual({
    protocol: "http/protobuf",
    sampler: { isParentBased: true, ratio: 1 },
    propagators: ["tracecontext", "baggage"],
    resource: { "service.name": "gateway-proxy" },
    batch: { scheduledDelayMs: 5_000, exportTimeoutMs: 30_000, maxQueueSize: 2_048, maxExportBatchSize: 512 },
    semconvOptIn: [],
  });
});

test("every variable is read", () => {
  const settings = settingsOf({
    OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
    OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
    OTEL_TRACES_SAMPLER_ARG: "0.01",
    OTEL_PROPAGATORS: "tracecontext,b3multi,tracecontext",
    OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=prod,team=a%2Cb,service.name=ignored",
    OTEL_SERVICE_NAME: "edge",
    OTEL_BSP_MAX_QUEUE_SIZE: "100",
    OTEL_BSP_SCHEDULE_DELAY: "50",
    OTEL_SEMCONV_STABILITY_OPT_IN: "gen_ai_latest_experimental",
  });
  expect(settings).toMatchObject({
    protocol: "grpc",
    sampler: { isParentBased: true, ratio: 0.01 },
    propagators: ["tracecontext", "b3multi"],
    resource: { "service.name": "edge", team: "a,b", "deployment.environment.name": "prod" },
    batch: { maxQueueSize: 100, maxExportBatchSize: 100, scheduledDelayMs: 50 },
    semconvOptIn: ["gen_ai_latest_experimental"],
  });
});

test("each problem names the variable, the value and what is accepted", () => {
  expect(problemsOf({ OTEL_EXPORTER_OTLP_PROTOCOL: "http/json", OTEL_TRACES_SAMPLER: "xray" })).toEqual([
    'OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" is not one of grpc, http/protobuf',
    'OTEL_TRACES_SAMPLER: "xray" is not one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio',
  ]);
  expect(problemsOf({ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "2" })).toEqual([
    'OTEL_TRACES_SAMPLER_ARG: "2" is not a number from 0 to 1',
  ]);
  expect(problemsOf({ OTEL_PROPAGATORS: "jaeger" })).toHaveLength(1);
  expect(problemsOf({ OTEL_TRACES_EXPORTER: "zipkin" })).toEqual([
    'OTEL_TRACES_EXPORTER: "zipkin" is not one of otlp, none',
  ]);
});

test("a problem shows neither headers nor the credentials of a URL", () => {
  const problems = problemsOf({
    OTEL_EXPORTER_OTLP_HEADERS: "authorization Bearer%20SECRET",
    OTEL_EXPORTER_OTLP_ENDPOINT: "ftp://user:SECRET@collector",
  });
  expect(problems).toHaveLength(2);
  expect(problems.join("\n")).not.toContain("SECRET");
});

test("what is switched off does not prevent a start", () => {
  const read = readTracingSettings(
    { OTEL_EXPORTER_OTLP_PROTOCOL: "http/json", OTEL_TRACES_EXPORTER: "none" },
    defaults,
  );
  expect(read).toEqual({ ok: true, value: undefined });
});
