/**
 * Sends messages of spans, with the transports of the OpenTelemetry SDK. They read OTEL_EXPORTER_OTLP_* for the endpoint,
 * headers, timeout, compression and certificates, and retry. Only processes that export traces load this module.
 */
import type { IOtlpExportDelegate } from "@opentelemetry/otlp-exporter-base";
import {
  type IExporterMetricsHelper,
  type IExportTraceServiceResponse,
  type ISerializer,
  ProtobufTraceSerializer,
} from "@opentelemetry/otlp-transformer";
import { hasSucceeded } from "./pending-exports.ts";
import type { SpanTransport } from "./span-queue.ts";
import type { TracingSettings } from "./tracing-settings.ts";

/** Opens the transport to the collector. */
export async function openSpanTransport(settings: TracingSettings): Promise<SpanTransport> {
  const delegate = await openDelegate(settings);
  return {
    send: (message) =>
      new Promise((resolve, reject) => {
        delegate.export(message, (result) => {
          if (hasSucceeded(result)) resolve();
          else reject(result.error ?? new Error("the collector has not taken the spans"));
        });
      }),
    close: () => void delegate.shutdown().catch(() => undefined),
  };
}

async function openDelegate({ protocol, batch }: TracingSettings): Promise<IOtlpExportDelegate<Buffer>> {
  if (protocol === "grpc") {
    const { convertLegacyOtlpGrpcOptions, createOtlpGrpcExportDelegate } = await import(
      "@opentelemetry/otlp-grpc-exporter-base"
    );
    const options = within(batch.exportTimeoutMs, convertLegacyOtlpGrpcOptions({}, "TRACES"));
    const path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    return createOtlpGrpcExportDelegate(options, serializer, "", helper, undefined, "TraceExportService", path);
  }
  const { convertLegacyHttpOptions, createOtlpHttpExportDelegate } = await import(
    "@opentelemetry/otlp-exporter-base/node-http"
  );
  const type = { "Content-Type": "application/x-protobuf" };
  const options = within(batch.exportTimeoutMs, convertLegacyHttpOptions({}, "TRACES", "v1/traces", type));
  return createOtlpHttpExportDelegate(options, serializer, "", helper, undefined);
}

/** The time of an export includes that of all attempts. */
function within<Options extends { timeoutMillis: number }>(timeoutMs: number, options: Options): Options {
  return { ...options, timeoutMillis: Math.min(options.timeoutMillis, timeoutMs) };
}

/** Messages are written already. A response says which spans a collector has rejected. */
const serializer: ISerializer<Buffer, IExportTraceServiceResponse> = {
  serializeRequest: (message) => message,
  deserializeResponse: (data) => ProtobufTraceSerializer.deserializeResponse(data),
};

/** For metrics of the SDK about itself, which are not exported. */
const helper: IExporterMetricsHelper<Buffer> = { name: "span", countItems: () => 0 };
