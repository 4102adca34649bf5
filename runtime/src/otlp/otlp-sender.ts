/**
 * Sends messages of spans, metrics or log records that are written already, with the transports of the OpenTelemetry
 * SDK. They read OTEL_EXPORTER_OTLP_* for the endpoint, headers, compression and certificates, and retry. Only
 * processes that export load this module.
 */
import type { IOtlpExportDelegate } from "@opentelemetry/otlp-exporter-base";
import type { IExporterMetricsHelper, ISerializer } from "@opentelemetry/otlp-transformer";
import {
  ProtobufLogsSerializer,
  ProtobufMetricsSerializer,
  ProtobufTraceSerializer,
} from "@opentelemetry/otlp-transformer";
import type { OtlpProtocol } from "../tracing/otel-variables.ts";
import { reportDiagnostics } from "./diagnostics.ts";
import type { ReportProblem } from "./export-observer.ts";

/** Sends to one collector. */
export interface OtlpSender {
  /** Resolves when the collector has taken a message; rejects with the reason if it does not, within the timeout. */
  send(message: Buffer): Promise<void>;
  /** Ends the connections. */
  close(): void;
}

/** The signal of the messages, how they are sent, and the bound of the time. Plain data, which threads may share. */
export interface OtlpTransport {
  readonly signal: "spans" | "points" | "records";
  readonly protocol: OtlpProtocol;
  /** Maximum time of an export with all its attempts, in ms; OTEL_EXPORTER_OTLP_*TIMEOUT may set less. */
  readonly timeoutMs: number;
}

/** The part of a response that names the rejected items. */
interface Rejection {
  readonly items: number;
  readonly message: string;
}

/** `ExportResultCode.SUCCESS` of `@opentelemetry/core`. */
const succeeded = 0;

/** For metrics of the SDK about itself, which are not exported. */
const countItems = (): number => 0;

/** How a signal is named in variables and paths, and how its responses are read. */
interface Signal {
  readonly variables: "TRACES" | "METRICS" | "LOGS";
  readonly httpPath: string;
  readonly grpcPath: string;
  readonly client: string;
  readonly helper: IExporterMetricsHelper<Buffer>;
  rejection(data: Uint8Array): Rejection;
}

const signals: Readonly<Record<OtlpTransport["signal"], Signal>> = {
  spans: {
    variables: "TRACES",
    httpPath: "v1/traces",
    grpcPath: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    client: "TraceExportService",
    helper: { name: "span", countItems },
    rejection(data: Uint8Array): Rejection {
      const { partialSuccess } = ProtobufTraceSerializer.deserializeResponse(data);
      return { items: partialSuccess?.rejectedSpans ?? 0, message: partialSuccess?.errorMessage ?? "" };
    },
  },
  points: {
    variables: "METRICS",
    httpPath: "v1/metrics",
    grpcPath: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    client: "MetricsExportService",
    helper: { name: "metric_data_point", countItems },
    rejection(data: Uint8Array): Rejection {
      const { partialSuccess } = ProtobufMetricsSerializer.deserializeResponse(data);
      return { items: partialSuccess?.rejectedDataPoints ?? 0, message: partialSuccess?.errorMessage ?? "" };
    },
  },
  records: {
    variables: "LOGS",
    httpPath: "v1/logs",
    grpcPath: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    client: "LogsExportService",
    helper: { name: "log", countItems },
    rejection(data: Uint8Array): Rejection {
      const { partialSuccess } = ProtobufLogsSerializer.deserializeResponse(data);
      return { items: partialSuccess?.rejectedLogRecords ?? 0, message: partialSuccess?.errorMessage ?? "" };
    },
  },
};

/**
 * Opens a sender.
 *
 * @param onProblem called with the warnings of the SDK in this thread, and with the reason for which a collector has
 *   not taken some items of a message.
 */
export async function openOtlpSender(transport: OtlpTransport, onProblem: ReportProblem): Promise<OtlpSender> {
  reportDiagnostics(onProblem);
  const delegate = await openDelegate(transport, serializerFor(transport, onProblem));
  return {
    send: (message) =>
      new Promise((resolve, reject) => {
        delegate.export(message, (result: { readonly code: number; readonly error?: Error }) => {
          if (result.code === succeeded) resolve();
          else reject(result.error ?? new Error(`the collector has not taken the ${transport.signal}`));
        });
      }),
    close: () => void delegate.shutdown().catch(() => undefined),
  };
}

async function openDelegate(
  { signal, protocol, timeoutMs }: OtlpTransport,
  serializer: ISerializer<Buffer, object>,
): Promise<IOtlpExportDelegate<Buffer>> {
  const { helper, variables, httpPath, grpcPath, client } = signals[signal];
  if (protocol === "grpc") {
    const { convertLegacyOtlpGrpcOptions, createOtlpGrpcExportDelegate } = await import(
      "@opentelemetry/otlp-grpc-exporter-base"
    );
    const read = within(timeoutMs, convertLegacyOtlpGrpcOptions({}, variables));
    return createOtlpGrpcExportDelegate(read, serializer, "", helper, undefined, client, grpcPath);
  }
  const { convertLegacyHttpOptions, createOtlpHttpExportDelegate } = await import(
    "@opentelemetry/otlp-exporter-base/node-http"
  );
  const type = { "Content-Type": "application/x-protobuf" };
  const read = within(timeoutMs, convertLegacyHttpOptions({}, variables, httpPath, type));
  return createOtlpHttpExportDelegate(read, serializer, "", helper, undefined);
}

function within<Read extends { timeoutMillis: number }>(timeoutMs: number, read: Read): Read {
  return { ...read, timeoutMillis: Math.min(read.timeoutMillis, timeoutMs) };
}

function serializerFor({ signal }: OtlpTransport, onProblem: ReportProblem): ISerializer<Buffer, object> {
  return {
    serializeRequest: (message) => message,
    deserializeResponse(data) {
      const { items, message } = signals[signal].rejection(data);
      if (items > 0 || message !== "") onProblem(`the collector has rejected ${items} ${signal}: ${message}`);
      return {};
    },
  };
}
