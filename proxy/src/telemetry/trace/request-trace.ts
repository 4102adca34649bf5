/**
 * Sends the events of one request to its trace subscribers and to the log. Only a traced request, or one that is logged
 * in detail, has one.
 */
import type { TraceEvent, TraceMessage } from "@gatewayproxy/admin-api/trace-event";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { logEvent, type RequestLines } from "../request-log.ts";

/** Severity of an event. */
export type Severity = TraceEvent["severity"];

/** Receives the events in order, then `undefined` at the end. */
export type TraceSink = (event: TraceEvent | undefined) => void;

/** The trace of one request. */
export class RequestTrace {
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #sinks: readonly TraceSink[];
  /** For details that are only logged; undefined where the request is not logged in detail. */
  readonly log: RequestLines | undefined;

  /**
   * Creates a trace.
   *
   * @param startMs monotonic time at which the request began.
   * @param sinks those of the trace subscribers.
   */
  constructor(clock: Clock, startMs: number, sinks: readonly TraceSink[], log?: RequestLines) {
    this.#clock = clock;
    this.#startMs = startMs;
    this.#sinks = sinks;
    this.log = log;
  }

  /**
   * Emits an event.
   *
   * @param sinceMs monotonic time at which the event began; absent: now.
   */
  emit(message: TraceMessage, severity: Severity = "info", sinceMs?: number): void {
    const eventEnd = this.#microseconds(this.#clock.monotonicMs());
    const eventStart = sinceMs === undefined ? eventEnd : this.#microseconds(sinceMs);
    for (const sink of this.#sinks) sink({ eventStart, eventEnd, severity, message });
    if (this.log !== undefined) logEvent(this.log, message, (eventEnd - eventStart) / 1_000);
  }

  /** Ends the trace; no event follows. */
  end(): void {
    for (const sink of this.#sinks) sink(undefined);
  }

  #microseconds(ms: number): number {
    return Math.max(0, Math.round((ms - this.#startMs) * 1_000));
  }
}
