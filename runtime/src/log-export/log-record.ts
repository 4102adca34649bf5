/** A log record for OTLP as plain data, without the packages of OpenTelemetry. */
import type { SpanAttributes } from "../tracing/span.ts";

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
  /** Takes records, or drops them if the queue is full. Never throws, and never waits. */
  add(records: readonly LogRecord[]): void;
  /** Sends what is queued, within `timeoutMs`. Never rejects. */
  close(timeoutMs: number): Promise<void>;
}
