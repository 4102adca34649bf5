/**
 * The settings of the exports of traces, metrics and logs together: TRACING_* of envoyproxy/ratelimit, and OTEL_*. A
 * variable of envoyproxy/ratelimit that is set takes precedence, as it does there.
 */
import { randomUUID } from "node:crypto";
import { type LogExportSettings, readLogExportSettings } from "@gatewayproxy/runtime/log-export-settings";
import { type MetricExportSettings, readMetricExportSettings } from "@gatewayproxy/runtime/metric-export-settings";
import { type Environment, problemsOfAll } from "@gatewayproxy/runtime/otel-variables";
import type { Result } from "@gatewayproxy/runtime/problem";
import type { SettingValues } from "@gatewayproxy/runtime/settings";
import { readTracingSettings, type TracingSettings } from "@gatewayproxy/runtime/tracing-settings";
import type { tracingSettings } from "./tracing-settings.ts";

/** The exports of a process; undefined: there is none. */
export interface ServiceTelemetry {
  readonly tracing: TracingSettings | undefined;
  readonly metricExport: MetricExportSettings | undefined;
  readonly logExport: LogExportSettings | undefined;
}

/** Reads the settings of the exports. @param env the variables that are really set. */
export function readServiceTelemetry(
  values: SettingValues<typeof tracingSettings>,
  env: Environment,
): Result<ServiceTelemetry> {
  const { tracingServiceName: name } = values;
  const isSet = (variable: string): boolean => (env[variable] ?? "") !== "";
  const named = { ...env, ...(isSet("TRACING_SERVICE_NAME") && { OTEL_SERVICE_NAME: name }) };
  // As for envoyproxy/ratelimit: a collector for the whole cluster does not switch an export on.
  const defaults = { endpointSwitchesOn: false, resource: { "service.name": name } };
  const tracing = readTracingSettings(
    {
      ...named,
      ...(isSet("TRACING_EXPORTER_PROTOCOL") && { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: protocolOf(values) }),
      ...(isSet("TRACING_SAMPLING_RATE") && {
        OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
        OTEL_TRACES_SAMPLER_ARG: String(values.tracingSamplingRate),
      }),
    },
    {
      ...defaults,
      isOn: values.tracingEnabled,
      protocol: protocolOf(values),
      sampler: { isParentBased: true, ratio: values.tracingSamplingRate },
    },
  );
  const metricExport = readMetricExportSettings(named, defaults);
  const logExport = readLogExportSettings(named, defaults.resource);
  if (!tracing.ok || !metricExport.ok || !logExport.ok) {
    return { ok: false, problems: problemsOfAll([tracing, metricExport, logExport]) };
  }
  const instance = instanceOf(values, isSet("TRACING_SERVICE_INSTANCE_ID"));
  return {
    ok: true,
    value: {
      tracing: instance(tracing.value),
      metricExport: instance(metricExport.value),
      logExport: instance(logExport.value),
    },
  };
}

/** Returns a function that adds the attributes of this process to the resource of an export. */
function instanceOf(values: SettingValues<typeof tracingSettings>, isSet: boolean) {
  const { tracingServiceNamespace: namespace, tracingServiceInstanceId } = values;
  let instance = tracingServiceInstanceId;
  return <T extends { readonly resource: Readonly<Record<string, string>> }>(
    settings: T | undefined,
  ): T | undefined => {
    if (settings === undefined) return undefined;
    // All exports of a process have the same one.
    instance ??= randomUUID();
    const resource = {
      "service.instance.id": instance,
      ...settings.resource,
      ...(namespace !== undefined && { "service.namespace": namespace }),
      ...(isSet && { "service.instance.id": instance }),
    };
    return { ...settings, resource };
  };
}

function protocolOf({ tracingExporterProtocol }: SettingValues<typeof tracingSettings>): TracingSettings["protocol"] {
  return tracingExporterProtocol === "grpc" ? "grpc" : "http/protobuf";
}
