/**
 * The settings of traces together: TRACING_* of envoyproxy/ratelimit, and OTEL_*. A variable of envoyproxy/ratelimit that is set
 * takes precedence, as it does there.
 */
import { randomUUID } from "node:crypto";
import type { Result } from "@gatewayproxy/runtime/problem";
import type { SettingValues } from "@gatewayproxy/runtime/settings";
import type { Environment } from "@gatewayproxy/runtime/otel-variables";
import { readTracingSettings, type TracingSettings } from "@gatewayproxy/runtime/tracing-settings";
import type { tracingSettings } from "./tracing-settings.ts";

/** Reads the settings of traces; `value` is undefined if they are off. @param env the variables that are really set. */
export function readServiceTracing(
  values: SettingValues<typeof tracingSettings>,
  env: Environment,
): Result<TracingSettings | undefined> {
  const {
    tracingServiceName: name,
    tracingServiceNamespace: namespace,
    tracingServiceInstanceId: instance = randomUUID(),
  } = values;
  const isSet = (variable: string): boolean => (env[variable] ?? "") !== "";
  const read = readTracingSettings(
    {
      ...env,
      ...(isSet("TRACING_SERVICE_NAME") && { OTEL_SERVICE_NAME: name }),
      ...(isSet("TRACING_EXPORTER_PROTOCOL") && { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: protocolOf(values) }),
      ...(isSet("TRACING_SAMPLING_RATE") && {
        OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
        OTEL_TRACES_SAMPLER_ARG: String(values.tracingSamplingRate),
      }),
    },
    {
      isOn: values.tracingEnabled,
      // As for envoyproxy/ratelimit: a collector for the whole cluster does not switch traces on.
      endpointSwitchesOn: false,
      protocol: protocolOf(values),
      sampler: { isParentBased: true, ratio: values.tracingSamplingRate },
      resource: { "service.name": name },
    },
  );
  if (!read.ok || read.value === undefined) return read;
  const resource = {
    "service.instance.id": instance,
    ...read.value.resource,
    ...(namespace !== undefined && { "service.namespace": namespace }),
    ...(isSet("TRACING_SERVICE_INSTANCE_ID") && { "service.instance.id": instance }),
  };
  return { ok: true, value: { ...read.value, resource } };
}

function protocolOf({ tracingExporterProtocol }: SettingValues<typeof tracingSettings>): TracingSettings["protocol"] {
  return tracingExporterProtocol === "grpc" ? "grpc" : "http/protobuf";
}
