/**
 * The events of one request on their way to whoever watches it, and to the log. Only a request that is watched, or
 * logged in detail, has one.
 */
import type { TraceEvent, TraceMessage } from "@gatewayproxy/admin-api/trace-event";
import type { Clock } from "@gatewayproxy/runtime/clock";
import { logEvent, type RequestLines } from "../request-log.ts";

export type Severity = TraceEvent["severity"];

/** Takes the events in their order, then `undefined` for the end. */
export type TraceSink = (event: TraceEvent | undefined) => void;

export class RequestTrace {
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #sinks: readonly TraceSink[];
  /** For what only the log tells; absent where the request is not logged in detail. */
  readonly log: RequestLines | undefined;

  /**
   * @param startMs when the request began; monotonic.
   * @param sinks of those who watch it.
   */
  constructor(clock: Clock, startMs: number, sinks: readonly TraceSink[], log?: RequestLines) {
    this.#clock = clock;
    this.#startMs = startMs;
    this.#sinks = sinks;
    this.log = log;
  }

  /** @param sinceMs when what is told began, monotonic; absent: now. */
  emit(message: TraceMessage, severity: Severity = "info", sinceMs?: number): void {
    const eventEnd = this.#microseconds(this.#clock.monotonicMs());
    const eventStart = sinceMs === undefined ? eventEnd : this.#microseconds(sinceMs);
    for (const sink of this.#sinks) sink({ eventStart, eventEnd, severity, message });
    if (this.log !== undefined) logEvent(this.log, message, (eventEnd - eventStart) / 1_000);
  }

  /** The request is over; nothing follows. */
  end(): void {
    for (const sink of this.#sinks) sink(undefined);
  }

  #microseconds(ms: number): number {
    return Math.max(0, Math.round((ms - this.#startMs) * 1_000));
  }
}
