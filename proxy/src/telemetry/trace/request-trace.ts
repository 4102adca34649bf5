/** The events of one request on their way to whoever watches it. Only a request that is watched has one. */
import type { TraceEvent, TraceMessage } from "@gatewayproxy/admin-api/trace-event";
import type { Clock } from "@gatewayproxy/runtime/clock";

export type Severity = TraceEvent["severity"];

/** Takes the events in their order, then `undefined` for the end. */
export type TraceSink = (event: TraceEvent | undefined) => void;

export class RequestTrace {
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #sink: TraceSink;

  /** @param startMs when the request began; monotonic. */
  constructor(clock: Clock, startMs: number, sink: TraceSink) {
    this.#clock = clock;
    this.#startMs = startMs;
    this.#sink = sink;
  }

  /** @param sinceMs when what is told began, monotonic; absent: now. */
  emit(message: TraceMessage, severity: Severity = "info", sinceMs?: number): void {
    const eventEnd = this.#microseconds(this.#clock.monotonicMs());
    const eventStart = sinceMs === undefined ? eventEnd : this.#microseconds(sinceMs);
    this.#sink({ eventStart, eventEnd, severity, message });
  }

  /** The request is over; nothing follows. */
  end(): void {
    this.#sink(undefined);
  }

  #microseconds(ms: number): number {
    return Math.max(0, Math.round((ms - this.#startMs) * 1_000));
  }
}
