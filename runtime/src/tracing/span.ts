/** A span that has ended, as plain data, without the packages of OpenTelemetry. */

/** The value of an attribute; undefined is left out. */
export type AttributeValue = string | number | boolean | readonly string[] | undefined;
/** Attributes by name. */
export type SpanAttributes = Readonly<Record<string, AttributeValue>>;

/** A span that has ended. */
export interface FinishedSpan {
  readonly name: string;
  readonly kind: "server" | "client" | "internal";
  readonly traceId: string;
  readonly spanId: string;
  /** Undefined for the first span of a trace. */
  readonly parentSpanId: string | undefined;
  /** Whether the parent is a span of another process. */
  readonly isParentRemote: boolean;
  readonly tracestate: string | undefined;
  /** Milliseconds since the epoch, with a fraction. */
  readonly startMs: number;
  readonly endMs: number;
  /** Whether the operation has failed (Recording Errors: status `Error`). */
  readonly isError: boolean;
  /** Describes the error; absent for none. */
  readonly message?: string | undefined;
  readonly attributes: SpanAttributes;
}

/** Receives spans that have ended. */
export interface SpanSink {
  /** Takes the spans of one request: all of them, or none if the queue is full. Never throws, and never waits. */
  add(spans: readonly FinishedSpan[]): void;
  /** Sends what is queued, within `timeoutMs`. Never rejects. */
  close(timeoutMs: number): Promise<void>;
}
