/** The traces of one worker: the span of each request begins with its head, and is exported or discarded at its end. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { newTraceId } from "@gatewayproxy/runtime/ids";
import { knownMethod } from "@gatewayproxy/runtime/known-methods";
import type { Tracing } from "@gatewayproxy/runtime/open-tracing";
import type { FinishedSpan, SpanAttributes } from "@gatewayproxy/runtime/span";
import { isDeniedOrFailed } from "../access-log/selection.ts";
import type { RequestRecord } from "../request-record.ts";
import { genAiAttributes, genAiName } from "./gen-ai-attributes.ts";
import { type AttemptSpan, type CallSpan, RequestSpan } from "./request-span.ts";
import {
  attemptAttributes,
  copyAttributes,
  isAttemptError,
  isRequestError,
  requestAttributes,
  serviceCallAttributes,
} from "./span-attributes.ts";

/** Which requests are exported although they are not sampled. */
export const tracedAlways = ["none", "denied-and-failed"] as const;
/** A value of `tracedAlways`. */
export type TracedAlways = (typeof tracedAlways)[number];

/** Difference in ms from which on the wall clock has been set. */
const clockStepMs = 2;

/** Begins and ends the spans of the requests of a worker. */
export class RequestTracing {
  readonly #clock: Clock;
  readonly #tracing: Tracing;
  readonly #keepsFailed: boolean;
  readonly #worker: number;
  readonly #isLatestGenAi: boolean;
  /** The wall time at which the monotonic clock was 0. */
  #epochMs = Number.NEGATIVE_INFINITY;

  /**
   * Creates the traces of a worker.
   *
   * @param always requests that are exported although they are not sampled.
   * @param worker the number of the worker, from 1.
   */
  constructor(clock: Clock, tracing: Tracing, always: TracedAlways, worker: number) {
    this.#clock = clock;
    this.#tracing = tracing;
    this.#keepsFailed = always === "denied-and-failed";
    this.#worker = worker;
    this.#isLatestGenAi = tracing.semconvOptIn.includes("gen_ai_latest_experimental");
  }

  /**
   * Begins the span of a request.
   *
   * @param rawHeaders names and values in turn.
   * @param startMs monotonic.
   */
  begin(rawHeaders: readonly string[], startMs: number): RequestSpan {
    const { propagation, sample } = this.#tracing;
    const context = propagation.extract(rawHeaders);
    const traceId = context.parent?.traceId ?? newTraceId();
    const isSampled = sample(traceId, context.parent);
    const isRecording = isSampled || this.#keepsFailed;
    return new RequestSpan({ context, traceId, isSampled, propagation, startMs, isRecording });
  }

  /** Whether the span of a request is exported at its end. @param record complete. */
  isExported(span: RequestSpan, record: RequestRecord): boolean {
    return span.isSampled || (this.#keepsFailed && isDeniedOrFailed(record));
  }

  /** Ends the span of a request. @param record complete. */
  end(span: RequestSpan, record: RequestRecord): void {
    if (!this.isExported(span, record)) return;
    const epochMs = this.#epoch();
    const { sink } = this.#tracing;
    const spans: FinishedSpan[] = [];
    let attempts = 0;
    for (const call of span.calls) {
      if (call.kind === "attempt") spans.push(this.#attempt(span, call, record, epochMs, attempts++));
      // Others may outlast the request.
      else if (call.endMs !== 0) spans.push(sideCall(span, call, epochMs));
    }
    spans.push(this.#request(span, record, epochMs));
    sink.add(spans);
    span.onLateEnd = (call) => sink.add([sideCall(span, call, epochMs)]);
  }

  /** Sends what is queued, within `timeoutMs`. */
  close(timeoutMs: number): Promise<void> {
    return this.#tracing.sink.close(timeoutMs);
  }

  /**
   * Returns the wall time of the monotonic clock's 0. The wall clock has whole milliseconds, rounded down, so the
   * latest such time is the most precise one. Without it, calls would begin before their request.
   */
  #epoch(): number {
    const seenMs = this.#clock.nowMs() - this.#clock.monotonicMs();
    const isStep = Math.abs(seenMs - this.#epochMs) > clockStepMs;
    if (isStep || seenMs > this.#epochMs) this.#epochMs = seenMs;
    return this.#epochMs;
  }

  #request(span: RequestSpan, record: RequestRecord, epochMs: number): FinishedSpan {
    const method = knownMethod(record.method) ?? "HTTP";
    const startMs = epochMs + span.startMs;
    return {
      name: span.pathMatch === undefined ? method : `${method} ${span.pathMatch}`,
      kind: "server",
      traceId: span.traceId,
      spanId: span.spanId,
      parentSpanId: span.parentSpanId,
      isParentRemote: span.parentSpanId !== undefined,
      tracestate: span.tracestate,
      startMs,
      endMs: startMs + record.durationMs,
      isError: isRequestError(record),
      attributes: requestAttributes(record, span, this.#worker),
    };
  }

  #attempt(
    span: RequestSpan,
    attempt: AttemptSpan,
    record: RequestRecord,
    epochMs: number,
    resends: number,
  ): FinishedSpan {
    const name = attempt.ai === undefined ? undefined : genAiName(attempt, record);
    // An attempt that has not ended before its request ends with it.
    const endMs = attempt.endMs === 0 ? span.startMs + record.durationMs : attempt.endMs;
    return {
      name: name ?? knownMethod(attempt.method) ?? "HTTP",
      kind: "client",
      traceId: span.traceId,
      spanId: attempt.spanId,
      parentSpanId: span.spanId,
      isParentRemote: false,
      tracestate: span.tracestate,
      startMs: epochMs + attempt.startMs,
      endMs: epochMs + endMs,
      isError: isAttemptError(attempt),
      attributes: this.#attemptAttributes(attempt, record, resends),
    };
  }

  #attemptAttributes(attempt: AttemptSpan, record: RequestRecord, resends: number): SpanAttributes {
    const attributes = attemptAttributes(attempt, resends);
    if (attempt.ai === undefined) return attributes;
    const isLast = resends === record.attempts - 1;
    return { ...attributes, ...genAiAttributes(attempt, record, isLast, this.#isLatestGenAi) };
  }
}

/** Returns the span of a call that has ended and is no attempt. */
function sideCall({ traceId, spanId, tracestate }: RequestSpan, call: CallSpan, epochMs: number): FinishedSpan {
  const isService = call.kind === "serviceCall";
  return {
    name: isService ? call.method : (knownMethod(call.method) ?? "HTTP"),
    kind: "client",
    traceId,
    spanId: call.spanId,
    parentSpanId: spanId,
    isParentRemote: false,
    tracestate,
    startMs: epochMs + call.startMs,
    endMs: epochMs + call.endMs,
    isError: isService ? call.failure !== undefined : isAttemptError(call),
    attributes: isService ? serviceCallAttributes(call) : copyAttributes(call),
  };
}
