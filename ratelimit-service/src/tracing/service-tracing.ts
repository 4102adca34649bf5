/** Makes the spans of one thread: of calls, of the store, and of loads of the configuration. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { ExportCounts } from "@gatewayproxy/runtime/export-observer";
import { newSpanId, newTraceId } from "@gatewayproxy/runtime/ids";
import type { Tracing } from "@gatewayproxy/runtime/open-tracing";
import type { FinishedSpan, SpanAttributes } from "@gatewayproxy/runtime/span";
import type { ConfigUpdate } from "../config/config-source.ts";
import { CurrentTrace, type TracedCall } from "./current-trace.ts";

/** A call whose spans are exported. */
export interface OpenCall extends TracedCall {
  readonly parentSpanId: string | undefined;
  readonly tracestate: string | undefined;
  readonly isSampled: boolean;
  /** Milliseconds since the epoch, with a fraction. */
  readonly startMs: number;
}

/** The traces of one thread. */
export class ServiceTracing {
  readonly #tracing: Tracing;
  readonly #clock: Clock;
  readonly current = new CurrentTrace();
  /** What became of the spans so far. */
  readonly spans: Readonly<ExportCounts>;

  /** @param spans counted by the observer of the export. */
  constructor(tracing: Tracing, clock: Clock, spans: Readonly<ExportCounts>) {
    this.#tracing = tracing;
    this.#clock = clock;
    this.spans = spans;
  }

  /** Begins a call. @param fields names in lower case and values, in turn. */
  begin(fields: readonly string[]): OpenCall {
    const { propagation, sample } = this.#tracing;
    const { parent, tracestate } = propagation.extract(fields);
    const traceId = parent?.traceId ?? newTraceId();
    const isSampled = sample(traceId, parent);
    return {
      ...{ traceId, spanId: newSpanId(), parentSpanId: parent?.spanId, tracestate, isSampled },
      startMs: this.nowMs(),
      ...(isSampled && { attributes: {} }),
    };
  }

  /** Ends a call. @param attributes besides those that the call has got. */
  end(call: OpenCall, name: string, isError: boolean, attributes: SpanAttributes): void {
    if (!call.isSampled) return;
    this.#add({
      ...{ name, kind: "server", ...placeOf(call), isParentRemote: call.parentSpanId !== undefined },
      ...{ startMs: call.startMs, endMs: this.nowMs(), isError },
      attributes: { ...attributes, ...call.attributes },
    });
  }

  /** Exports a span below the current call; does nothing without one. */
  child(span: Pick<FinishedSpan, "name" | "kind" | "startMs" | "isError" | "attributes">): void {
    const call = this.current.current;
    if (call?.attributes === undefined) return;
    const { traceId, spanId: parentSpanId } = call;
    const place = { traceId, spanId: newSpanId(), parentSpanId, isParentRemote: false, tracestate: undefined };
    this.#add({ ...span, ...place, endMs: this.nowMs() });
  }

  /** Calls `apply`, which applies a configuration, and exports a span for it. */
  load({ config, problems }: ConfigUpdate, apply: () => void): void {
    const startMs = this.nowMs();
    const traceId = newTraceId();
    apply();
    if (!this.#tracing.sample(traceId, undefined)) return;
    const place = { traceId, spanId: newSpanId(), parentSpanId: undefined, isParentRemote: false };
    this.#add({
      ...{ name: "load configuration", kind: "internal", ...place, tracestate: undefined },
      ...{ startMs, endMs: this.nowMs(), isError: problems.length > 0 },
      attributes: {
        "gatewayproxy.ratelimit.domains": config?.domains.size ?? 0,
        "gatewayproxy.ratelimit.problems": problems.length,
        "error.type": problems.length > 0 ? "invalid_configuration" : undefined,
      },
    });
  }

  /** The wall time of the monotonic clock, so that no span ends before it begins when the wall clock is set. */
  nowMs(): number {
    return this.#epochMs() + this.#clock.monotonicMs();
  }

  #epoch = Number.NEGATIVE_INFINITY;

  /** The wall clock has whole milliseconds, rounded down, so the latest of these times is the most precise one. */
  #epochMs(): number {
    const seenMs = this.#clock.nowMs() - this.#clock.monotonicMs();
    if (Math.abs(seenMs - this.#epoch) > clockStepMs || seenMs > this.#epoch) this.#epoch = seenMs;
    return this.#epoch;
  }

  /** Sends what is queued, within `timeoutMs`. */
  close(timeoutMs: number): Promise<void> {
    return this.#tracing.sink.close(timeoutMs);
  }

  #add(span: FinishedSpan): void {
    this.#tracing.sink.add([span]);
  }
}

/** Difference in ms from which on the wall clock has been set. */
const clockStepMs = 2;

function placeOf({ traceId, spanId, parentSpanId, tracestate }: OpenCall) {
  return { traceId, spanId, parentSpanId, tracestate };
}
