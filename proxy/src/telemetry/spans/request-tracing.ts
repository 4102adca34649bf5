/** The traces of one worker: the span of each request begins with its head, and is exported or discarded at its end. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { newSpanId, newTraceId } from "@gatewayproxy/runtime/ids";
import type { Tracing } from "@gatewayproxy/runtime/open-tracing";
import type { FinishedSpan } from "@gatewayproxy/runtime/span";
import { isDeniedOrFailed } from "../access-log/selection.ts";
import type { RequestRecord } from "../request-record.ts";
import { genAiAttributes, genAiName } from "./gen-ai-attributes.ts";
import { type AttemptSpan, RequestSpan, type ServiceCallSpan } from "./request-span.ts";
import {
  attemptAttributes,
  isAttemptError,
  isRequestError,
  knownMethod,
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
    const { parent, tracestate, baggage } = propagation.extract(propagation.readerOf(rawHeaders));
    const traceId = parent?.traceId ?? newTraceId();
    const isSampled = sample(traceId, parent);
    const place = { traceId, spanId: newSpanId(), parentSpanId: parent?.spanId, isSampled, tracestate, baggage };
    return new RequestSpan(place, propagation, startMs, isSampled || this.#keepsFailed);
  }

  /** Whether the span of a request is exported at its end. @param record complete. */
  isExported(span: RequestSpan, record: RequestRecord): boolean {
    return span.isSampled || (this.#keepsFailed && isDeniedOrFailed(record));
  }

  /** Ends the span of a request. @param record complete. */
  end(span: RequestSpan, record: RequestRecord): void {
    if (!this.isExported(span, record)) return;
    const epochMs = this.#epoch();
    let attempts = 0;
    const spans = span.calls.map((call) => {
      return call.kind === "attempt"
        ? this.#attempt(span, call, record, epochMs, attempts++)
        : serviceCall(span, call, record, epochMs);
    });
    spans.push(this.#request(span, record, epochMs));
    this.#tracing.sink.add(spans);
  }

  /** Sends what is queued, within `timeoutMs`. */
  close(timeoutMs: number): Promise<void> {
    return this.#tracing.sink.close(timeoutMs);
  }

  /**
   * Returns the wall time of the monotonic clock's 0. The wall clock has whole milliseconds, rounded down, so the latest
   * such time is the most precise one. Without it, calls would begin before their request.
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
      ...placeOf(span, span.spanId, span.parentSpanId),
      isParentRemote: span.parentSpanId !== undefined,
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
    const isLast = resends === record.attempts - 1;
    const name = attempt.ai === undefined ? undefined : genAiName(attempt, record);
    return {
      name: name ?? knownMethod(attempt.method) ?? "HTTP",
      kind: "client",
      ...placeOf(span, attempt.spanId, span.spanId),
      isParentRemote: false,
      ...timesOf(span, attempt, record, epochMs),
      isError: isAttemptError(attempt),
      attributes: {
        ...attemptAttributes(attempt, resends),
        ...(attempt.ai !== undefined && genAiAttributes(attempt, record, isLast, this.#isLatestGenAi)),
      },
    };
  }
}

function serviceCall(span: RequestSpan, call: ServiceCallSpan, record: RequestRecord, epochMs: number): FinishedSpan {
  return {
    name: call.method,
    kind: "client",
    ...placeOf(span, call.spanId, span.spanId),
    isParentRemote: false,
    ...timesOf(span, call, record, epochMs),
    isError: call.failure !== undefined,
    attributes: serviceCallAttributes(call),
  };
}

function placeOf({ traceId, tracestate }: RequestSpan, spanId: string, parentSpanId: string | undefined) {
  return { traceId, spanId, parentSpanId, tracestate };
}

/** A call that has not ended before its request ends with it. */
function timesOf(
  span: RequestSpan,
  { startMs, endMs }: AttemptSpan | ServiceCallSpan,
  record: RequestRecord,
  epochMs: number,
) {
  return { startMs: epochMs + startMs, endMs: epochMs + (endMs === 0 ? span.startMs + record.durationMs : endMs) };
}
