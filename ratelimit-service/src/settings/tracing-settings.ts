/**
 * Settings of traces that envoyproxy/ratelimit has. Those of OpenTelemetry are read by `read-telemetry-settings.ts`.
 */
import { optional, text } from "@gatewayproxy/runtime/setting-kinds";
import { decimal, flag, word } from "./kinds.ts";

export const tracingSettings = {
  tracingEnabled: {
    kind: flag,
    env: "TRACING_ENABLED",
    default: "false",
    help: "Exports spans by OTLP to OTEL_EXPORTER_OTLP_ENDPOINT. OTEL_TRACES_EXPORTER=otlp does so, too.",
  },
  tracingServiceName: {
    kind: text("NAME", "a name"),
    env: "TRACING_SERVICE_NAME",
    default: "RateLimit",
    help: "Their service.name. OTEL_SERVICE_NAME applies if this is not set.",
  },
  tracingServiceNamespace: {
    kind: optional(text("NAME", "a name")),
    env: "TRACING_SERVICE_NAMESPACE",
    help: "Their service.namespace.",
  },
  tracingServiceInstanceId: {
    kind: optional(text("ID", "an id")),
    env: "TRACING_SERVICE_INSTANCE_ID",
    defaultText: "a random id",
    help: "Their service.instance.id.",
  },
  tracingExporterProtocol: {
    kind: word("http", "grpc"),
    env: "TRACING_EXPORTER_PROTOCOL",
    default: "http",
    help: "The protocol of the export: OTLP over HTTP with protobuf, or over gRPC. OTEL_EXPORTER_OTLP_PROTOCOL applies if this is not set.",
  },
  tracingSamplingRate: {
    kind: decimal(0, 1),
    env: "TRACING_SAMPLING_RATE",
    default: "1",
    help: "The share of calls with a span, of those whose caller has not decided. OTEL_TRACES_SAMPLER applies if this is not set.",
  },
} as const;
