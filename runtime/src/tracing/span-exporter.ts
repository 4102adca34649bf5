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
import type { FinishedSpan, SpanSink } from "./span.ts";
import type { TracingSettings } from "./tracing-settings.ts";

/** Observes the export. */
export interface ExportObserver {
  /** Spans were exported, could not be exported, or found the queue full. */
  spansEnded(outcome: "exported" | "failed" | "dropped", count: number): void;
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
  readonly #maxPending: number;
  readonly #observer: ExportObserver;
  readonly #scope: ReadableSpan["instrumentationScope"];
  readonly #resource: Resource;
  /** Spans that are queued or being exported. */
  #pending = 0;

  constructor(
    exporter: SpanExporter,
    { batch, resource }: TracingSettings,
    scope: ReadableSpan["instrumentationScope"],
    observer: ExportObserver,
  ) {
    this.#observer = observer;
    this.#scope = scope;
    this.#resource = resourceFromAttributes(resource);
    this.#maxPending = batch.maxQueueSize;
    this.#processor = new BatchSpanProcessor({
      exporter: this.#counted(exporter),
      maxQueueSize: batch.maxQueueSize,
      maxExportBatchSize: batch.maxExportBatchSize,
      scheduledDelayMillis: batch.scheduledDelayMs,
      exportTimeoutMillis: batch.exportTimeoutMs,
    });
  }

  add(spans: readonly FinishedSpan[]): void {
    if (this.#pending + spans.length > this.#maxPending) {
      this.#observer.spansEnded("dropped", spans.length);
      return;
    }
    this.#pending += spans.length;
    for (const span of spans) this.#processor.onEnd(readable(span, this.#resource, this.#scope));
  }

  async close(timeoutMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, timeoutMs);
    });
    // What fails has been reported to the observer.
    await Promise.race([this.#processor.shutdown().catch(() => undefined), timeout]);
    clearTimeout(timer);
  }

  #counted(exporter: SpanExporter): SpanExporter {
    return {
      export: (spans, done) =>
        exporter.export(spans, (result) => {
          const code: number = result.code;
          this.#pending -= spans.length;
          this.#observer.spansEnded(code === succeeded ? "exported" : "failed", spans.length);
          done(result);
        }),
      shutdown: () => exporter.shutdown(),
      ...(exporter.forceFlush !== undefined && { forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve() }),
    };
  }
}

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL } as const;
const sampled = 1;
/** `ExportResultCode.SUCCESS` of `@opentelemetry/core`. */
const succeeded = 0;

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
