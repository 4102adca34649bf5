import { describe, expect, test } from "vitest";
import { readServiceSettings, type ServiceSettings } from "../settings.ts";

async function telemetryOf(env: Readonly<Record<string, string>>): Promise<ServiceSettings["telemetry"]> {
  const read = await readServiceSettings({ argv: [], env: { BACKEND_TYPE: "memory", ...env } });
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  return read.value.telemetry;
}

const tracingOf = async (env: Readonly<Record<string, string>>) => (await telemetryOf(env)).tracing;

describe("spans are exported", () => {
  test("with TRACING_ENABLED, as by the reference, or with OTEL_TRACES_EXPORTER", async () => {
    expect(await tracingOf({})).toBeUndefined();
    expect(await tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" })).toBeUndefined();
    expect(await tracingOf({ TRACING_ENABLED: "true" })).toBeDefined();
    expect(await tracingOf({ OTEL_TRACES_EXPORTER: "otlp" })).toBeDefined();
    expect(await tracingOf({ TRACING_ENABLED: "true", OTEL_SDK_DISABLED: "true" })).toBeUndefined();
  });

  test("with the defaults of the reference", async () => {
    expect(await tracingOf({ TRACING_ENABLED: "true" })).toMatchObject({
      protocol: "http/protobuf",
      sampler: { isParentBased: true, ratio: 1 },
      propagators: ["tracecontext", "baggage"],
      resource: {
        "service.name": "RateLimit",
        "service.instance.id": expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      },
    });
  });
});

const own = {
  TRACING_ENABLED: "true",
  TRACING_SERVICE_NAME: "limits",
  TRACING_SERVICE_NAMESPACE: "edge",
  TRACING_SERVICE_INSTANCE_ID: "pod-1",
  TRACING_EXPORTER_PROTOCOL: "grpc",
  TRACING_SAMPLING_RATE: "0.25",
};
const otel = {
  OTEL_TRACES_EXPORTER: "otlp",
  OTEL_SERVICE_NAME: "other",
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
  OTEL_TRACES_SAMPLER: "always_off",
  OTEL_RESOURCE_ATTRIBUTES: "service.instance.id=i,team=blue",
};

test("TRACING_* takes precedence over OTEL_*", async () => {
  const ofReference = {
    protocol: "grpc",
    sampler: { isParentBased: true, ratio: 0.25 },
    resource: { "service.name": "limits", "service.namespace": "edge", "service.instance.id": "pod-1" },
  };
  expect(await tracingOf(own)).toMatchObject(ofReference);
  expect(await tracingOf({ ...otel, ...own })).toMatchObject(ofReference);
  expect((await tracingOf({ ...otel, ...own }))?.resource["team"]).toBe("blue");
});

test("OTEL_* applies where TRACING_* is not set", async () => {
  expect(await tracingOf(otel)).toMatchObject({
    protocol: "http/protobuf",
    sampler: { isParentBased: false, ratio: 0 },
    resource: { "service.name": "other", "service.instance.id": "i", team: "blue" },
  });
});

test("an invalid variable of OpenTelemetry ends the start", async () => {
  const env = { TRACING_ENABLED: "true", OTEL_PROPAGATORS: "jaeger" };
  expect(await readServiceSettings({ argv: [], env })).toMatchObject({
    ok: false,
    problems: [{ path: "OTEL_PROPAGATORS" }],
  });
});

describe("metrics are exported", () => {
  const isExported = async (env: Readonly<Record<string, string>>) =>
    (await telemetryOf(env)).metricExport !== undefined;

  test("with OTEL_METRICS_EXPORTER, and not with an endpoint alone", async () => {
    expect(await isExported({ TRACING_ENABLED: "true", OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://c:4318" })).toBe(
      false,
    );
    expect(await isExported({ OTEL_METRICS_EXPORTER: "otlp" })).toBe(true);
  });

  test("with the resource of the spans", async () => {
    const { tracing, metricExport } = await telemetryOf({ ...own, ...otel, OTEL_METRICS_EXPORTER: "otlp" });
    expect(metricExport?.resource).toEqual(tracing?.resource);
  });

  test("a variable of both exports is reported once", async () => {
    const env = {
      ...{ BACKEND_TYPE: "memory", TRACING_ENABLED: "true", OTEL_METRICS_EXPORTER: "otlp" },
      OTEL_EXPORTER_OTLP_TIMEOUT: "soon",
    };
    expect(await readServiceSettings({ argv: [], env })).toMatchObject({
      ok: false,
      problems: [{ path: "OTEL_EXPORTER_OTLP_TIMEOUT" }],
    });
  });
});

describe("the log is exported", () => {
  const logExportOf = async (env: Readonly<Record<string, string>>) => (await telemetryOf(env)).logExport;

  test("with OTEL_LOGS_EXPORTER, and not with an endpoint alone", async () => {
    expect(await logExportOf({ TRACING_ENABLED: "true", OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: "http://c:4318" })).toBe(
      undefined,
    );
    expect(await logExportOf({ OTEL_LOGS_EXPORTER: "none" })).toBe(undefined);
    expect(await logExportOf({ OTEL_LOGS_EXPORTER: "otlp", OTEL_SDK_DISABLED: "true" })).toBe(undefined);
    expect(await logExportOf({ OTEL_LOGS_EXPORTER: "otlp" })).toMatchObject({ protocol: "http/protobuf" });
  });

  test("with the resource of the spans, and its own protocol and queue", async () => {
    const env = { OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: "grpc", OTEL_BLRP_MAX_QUEUE_SIZE: "8" };
    const { tracing, logExport } = await telemetryOf({ ...own, ...otel, ...env, OTEL_LOGS_EXPORTER: "otlp" });
    expect(logExport).toMatchObject({ protocol: "grpc", batch: { maxQueueSize: 8 }, resource: tracing?.resource });
  });

  test("not to an exporter that there is not", async () => {
    const env = { BACKEND_TYPE: "memory", OTEL_LOGS_EXPORTER: "console" };
    expect(await readServiceSettings({ argv: [], env })).toMatchObject({
      ok: false,
      problems: [{ path: "OTEL_LOGS_EXPORTER", message: '"console" is not one of otlp, none' }],
    });
  });
});
