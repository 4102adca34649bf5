/** The trace of the call that the current code works for, also after it has waited for the store. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { SpanAttributes } from "@gatewayproxy/runtime/span";

/** Where a call is in its trace. */
export interface TraceIds {
  readonly traceId: string;
  readonly spanId: string;
}

/** The fields of a log line that concerns a call. */
export interface TraceFields {
  readonly trace_id?: string;
  readonly span_id?: string;
}

function traceFields(trace: TraceIds | undefined): TraceFields {
  return trace === undefined ? {} : { trace_id: trace.traceId, span_id: trace.spanId };
}

/** The call of a thread. `attributes` is undefined if its span is not exported. */
export interface TracedCall extends TraceIds {
  attributes?: SpanAttributes | undefined;
}

/** The calls of one thread. */
export class CurrentTrace {
  readonly #storage = new AsyncLocalStorage<TracedCall>();
  /** By what the calls have ended with. */
  readonly #ended = new WeakMap<object, TraceIds>();

  /** The current call; undefined outside of calls, and for calls without a trace. */
  get current(): TracedCall | undefined {
    return this.#storage.getStore();
  }

  /** Calls `action` for a call. */
  run<T>(call: TracedCall, action: () => T): T {
    return this.#storage.run(call, action);
  }

  /** Remembers the call that has ended with a response or an error, for lines that are logged outside of it. */
  endedWith(outcome: unknown, call: TraceIds): void {
    if (typeof outcome === "object" && outcome !== null) this.#ended.set(outcome, call);
  }

  /** The fields for a line about a response or an error of a call; none without a trace. */
  fieldsOf(outcome: unknown): TraceFields {
    return typeof outcome === "object" && outcome !== null ? traceFields(this.#ended.get(outcome)) : {};
  }

  /** The fields for a line about the current call; none without a trace. */
  get fields(): TraceFields {
    return traceFields(this.current);
  }
}
