/**
 * Exports spans by OTLP, with the exporters and the batch processor of the OpenTelemetry SDK. Only processes that export
 * traces load this module (`open-tracing.ts`).
 */
import { type HrTime, ROOT_CONTEXT, SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { type Resource, resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  type ReadableSpan,
  SamplingDecision,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from "@opentelemetry/sdk-trace";
import { attributesOf } from "./attributes.ts";
import { reportDiagnostics } from "./diagnostics.ts";
import { endWithin, type ExportOutcome, PendingExports } from "./pending-exports.ts";
import type { FinishedSpan, SpanSink } from "./span.ts";
import type { TracingSettings } from "./tracing-settings.ts";

/** Observes the export. */
export interface ExportObserver {
  /** Spans were exported, could not be exported, or found the queue full. */
  spansEnded(outcome: ExportOutcome, count: number): void;
  /** A problem of the exporter. It contains no data of requests. */
  problem(message: string): void;
}

/** Opens the exporter of one thread. @param scope name and version of the program. */
export async function openSpanExporter(
  settings: TracingSettings,
  scope: { readonly name: string; readonly version: string },
  observer: ExportObserver,
): Promise<SpanSink> {
  reportDiagnostics((message) => observer.problem(message));
  return new BatchedSpans(await openExporter(settings), settings, scope, observer);
}

/** Returns a function that says for a ratio whether it includes a trace. */
export function ratioOfTraceIds(ratio: number): (traceId: string) => boolean {
  const sampler = new TraceIdRatioBasedSampler(ratio);
  return (traceId) => sampler.shouldSample(ROOT_CONTEXT, traceId).decision === SamplingDecision.RECORD_AND_SAMPLED;
}

/** Reads OTEL_EXPORTER_OTLP_* itself. */
async function openExporter({ protocol }: TracingSettings): Promise<SpanExporter> {
  if (protocol === "grpc") {
    const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-grpc");
    return new OTLPTraceExporter();
  }
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-proto");
  return new OTLPTraceExporter();
}

/** A bounded queue of spans. The spans of a request are queued together, or dropped together. */
class BatchedSpans implements SpanSink {
  readonly #processor: BatchSpanProcessor;
  readonly #pending: PendingExports;
  readonly #scope: ReadableSpan["instrumentationScope"];
  readonly #resource: Resource;

  constructor(
    exporter: SpanExporter,
    { batch, resource }: TracingSettings,
    scope: ReadableSpan["instrumentationScope"],
    observer: ExportObserver,
  ) {
    this.#scope = scope;
    this.#resource = resourceFromAttributes(resource);
    this.#pending = new PendingExports(batch.maxQueueSize, (outcome, count) => observer.spansEnded(outcome, count));
    this.#processor = new BatchSpanProcessor({
      exporter: this.#pending.counted(exporter),
      maxQueueSize: batch.maxQueueSize,
      maxExportBatchSize: batch.maxExportBatchSize,
      scheduledDelayMillis: batch.scheduledDelayMs,
      exportTimeoutMillis: batch.exportTimeoutMs,
    });
  }

  add(spans: readonly FinishedSpan[]): void {
    if (!this.#pending.take(spans.length)) return;
    for (const span of spans) this.#processor.onEnd(readable(span, this.#resource, this.#scope));
  }

  close(timeoutMs: number): Promise<void> {
    return endWithin(timeoutMs, this.#processor.shutdown());
  }
}

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;
const sampled = 1;

function readable(
  span: FinishedSpan,
  resource: Resource,
  instrumentationScope: ReadableSpan["instrumentationScope"],
): ReadableSpan {
  const { traceId, spanId, parentSpanId, isParentRemote: isRemote, startMs, endMs } = span;
  const end = Math.max(startMs, endMs);
  const context = { traceId, spanId, traceFlags: sampled, ...stateOf(span.tracestate) };
  return {
    name: span.name,
    kind: kinds[span.kind],
    spanContext: () => context,
    ...(parentSpanId !== undefined && {
      parentSpanContext: { traceId, spanId: parentSpanId, traceFlags: sampled, isRemote },
    }),
    startTime: hrTime(startMs),
    endTime: hrTime(end),
    duration: hrTime(end - startMs),
    status: span.isError
      ? { code: SpanStatusCode.ERROR, ...(span.message !== undefined && { message: span.message }) }
      : { code: SpanStatusCode.UNSET },
    attributes: attributesOf(span.attributes),
    links: [],
    events: [],
    ended: true,
    resource,
    instrumentationScope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

/** `tracestate` is exported as it was received. */
function stateOf(tracestate: string | undefined) {
  if (tracestate === undefined) return {};
  const traceState = {
    serialize: () => tracestate,
    get: () => undefined,
    set: () => traceState,
    unset: () => traceState,
  };
  return { traceState };
}

function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.round((ms - seconds * 1_000) * 1_000_000)];
}
