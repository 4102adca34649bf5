/**
 * Sends messages of metrics, with the transports of the OpenTelemetry SDK. They read OTEL_EXPORTER_OTLP_* for the endpoint,
 * headers, compression and certificates. Only processes that export metrics load this module.
 */
import type { IOtlpExportDelegate } from "@opentelemetry/otlp-exporter-base";
import type {
  IExportMetricsServiceResponse,
  IExporterMetricsHelper,
  ISerializer,
} from "@opentelemetry/otlp-transformer";
import { ProtobufMetricsSerializer } from "@opentelemetry/otlp-transformer";
import { hasSucceeded } from "../tracing/pending-exports.ts";
import type { MetricExportSettings } from "./metric-export-settings.ts";

/** Sends to one collector. */
export interface OtlpSender {
  /** Resolves when the collector has taken a message; rejects with the reason if it does not, within the timeout. */
  send(message: Buffer): Promise<void>;
  /** Ends the connections. */
  close(): void;
}

/** Opens a sender. @param onRejected called with the reason for which a collector has not taken some points of a message. */
export async function openOtlpSender(
  settings: MetricExportSettings,
  onRejected: (message: string) => void,
): Promise<OtlpSender> {
  const delegate = await openDelegate(settings, serializerWith(onRejected));
  return {
    send: (message) =>
      new Promise((resolve, reject) => {
        delegate.export(message, (result) => {
          if (hasSucceeded(result)) resolve();
          else reject(result.error ?? new Error("the collector has not taken the metrics"));
        });
      }),
    close: () => void delegate.shutdown().catch(() => undefined),
  };
}

/** For metrics of the SDK about itself, which are not exported. */
const helper: IExporterMetricsHelper<Buffer> = { name: "metric_data_point", countItems: () => 0 };

async function openDelegate(
  { protocol, timeoutMs }: MetricExportSettings,
  serializer: ISerializer<Buffer, IExportMetricsServiceResponse>,
): Promise<IOtlpExportDelegate<Buffer>> {
  if (protocol === "grpc") {
    const { convertLegacyOtlpGrpcOptions, createOtlpGrpcExportDelegate } = await import(
      "@opentelemetry/otlp-grpc-exporter-base"
    );
    const read = convertLegacyOtlpGrpcOptions({}, "METRICS");
    const options = { ...read, timeoutMillis: Math.min(read.timeoutMillis, timeoutMs) };
    const path = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    return createOtlpGrpcExportDelegate(options, serializer, "", helper, undefined, "MetricsExportService", path);
  }
  const { convertLegacyHttpOptions, createOtlpHttpExportDelegate } = await import(
    "@opentelemetry/otlp-exporter-base/node-http"
  );
  const type = { "Content-Type": "application/x-protobuf" };
  const read = convertLegacyHttpOptions({}, "METRICS", "v1/metrics", type);
  const options = { ...read, timeoutMillis: Math.min(read.timeoutMillis, timeoutMs) };
  return createOtlpHttpExportDelegate(options, serializer, "", helper, undefined);
}

function serializerWith(onRejected: (message: string) => void): ISerializer<Buffer, IExportMetricsServiceResponse> {
  return {
    serializeRequest: (message) => message,
    deserializeResponse(data) {
      const { partialSuccess } = ProtobufMetricsSerializer.deserializeResponse(data);
      const { rejectedDataPoints = 0, errorMessage = "" } = partialSuccess ?? {};
      if (rejectedDataPoints > 0 || errorMessage !== "") {
        onRejected(`the collector has rejected ${rejectedDataPoints} points: ${errorMessage}`);
      }
      return {};
    },
  };
}
