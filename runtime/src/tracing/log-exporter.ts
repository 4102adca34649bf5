/**
 * Exports log records by OTLP, with the exporters and the batch processor of the OpenTelemetry SDK. Only processes that
 * export logs load this module.
 */
import { type Context, type Logger, ROOT_CONTEXT, SeverityNumber, trace, TraceFlags } from "@opentelemetry/api";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider, type LogRecordExporter } from "@opentelemetry/sdk-logs";
import { attributesOf } from "./attributes.ts";
import { reportDiagnostics } from "./diagnostics.ts";
import type { LogExportSettings } from "./log-export-settings.ts";
import type { LogExportObserver, LogRecord, LogRecordSink } from "./log-record.ts";
import { endWithin, PendingExports } from "./pending-exports.ts";

/** Opens the exporter of one thread. @param scope name and version of the program. */
export async function openLogExporter(
  settings: LogExportSettings,
  scope: { readonly name: string; readonly version: string },
  observer: LogExportObserver,
): Promise<LogRecordSink> {
  reportDiagnostics((message) => observer.problem(message));
  return new BatchedLogRecords(await openExporter(settings), settings, scope, observer);
}

/** Reads OTEL_EXPORTER_OTLP_* itself. */
async function openExporter({ protocol }: LogExportSettings): Promise<LogRecordExporter> {
  if (protocol === "grpc") {
    const { OTLPLogExporter } = await import("@opentelemetry/exporter-logs-otlp-grpc");
    return new OTLPLogExporter();
  }
  const { OTLPLogExporter } = await import("@opentelemetry/exporter-logs-otlp-proto");
  return new OTLPLogExporter();
}

/** A bounded queue of log records. */
class BatchedLogRecords implements LogRecordSink {
  readonly #provider: LoggerProvider;
  readonly #logger: Logger;
  readonly #pending: PendingExports;

  constructor(
    exporter: LogRecordExporter,
    { batch, resource }: LogExportSettings,
    { name, version }: { readonly name: string; readonly version: string },
    observer: LogExportObserver,
  ) {
    this.#pending = new PendingExports(batch.maxQueueSize, (outcome, count) => observer.recordsEnded(outcome, count));
    const processor = new BatchLogRecordProcessor({
      exporter: this.#pending.counted(exporter),
      maxQueueSize: batch.maxQueueSize,
      maxExportBatchSize: batch.maxExportBatchSize,
      scheduledDelayMillis: batch.scheduledDelayMs,
      exportTimeoutMillis: batch.exportTimeoutMs,
    });
    this.#provider = new LoggerProvider({ resource: resourceFromAttributes(resource), processors: [processor] });
    this.#logger = this.#provider.getLogger(name, version);
  }

  add(record: LogRecord): void {
    if (!this.#pending.take(1)) return;
    this.#logger.emit({
      timestamp: record.timeMs,
      observedTimestamp: record.timeMs,
      severityNumber: SeverityNumber.INFO,
      severityText: "INFO",
      eventName: record.eventName,
      body: record.body,
      attributes: attributesOf(record.attributes),
      context: contextOf(record),
    });
  }

  close(timeoutMs: number): Promise<void> {
    return endWithin(timeoutMs, this.#provider.shutdown());
  }
}

function contextOf({ traceId, spanId }: LogRecord): Context {
  if (traceId === undefined || spanId === undefined) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.NONE });
}
