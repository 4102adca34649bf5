/** A log record for OTLP as plain data, without the packages of OpenTelemetry. */
import type { ExportOutcome } from "./pending-exports.ts";
import type { SpanAttributes } from "./span.ts";

/** A log record, of the severity `INFO`. */
export interface LogRecord {
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
  readonly eventName: string;
  readonly body: string;
  /** Undefined without a trace; then `spanId` is undefined, too. */
  readonly traceId: string | undefined;
  readonly spanId: string | undefined;
  readonly attributes: SpanAttributes;
}

/** Receives log records. */
export interface LogRecordSink {
  /** Takes a record, or drops it if the queue is full. Never throws, and never waits. */
  add(record: LogRecord): void;
  /** Sends what is queued, within `timeoutMs`. Never rejects. */
  close(timeoutMs: number): Promise<void>;
}

/** Observes the export. */
export interface LogExportObserver {
  /** Records were exported, could not be exported, or found the queue full. */
  recordsEnded(outcome: ExportOutcome, count: number): void;
  /** A problem of the exporter. It contains no data of requests. */
  problem(message: string): void;
}
