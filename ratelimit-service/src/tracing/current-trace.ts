/** The trace of the call that the current code works for, also after it has waited for the store. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { SpanAttributes } from "@gatewayproxy/runtime/span";

/** Where a call is in its trace. */
export interface TraceIds {
  readonly traceId: string;
  readonly spanId: string;
}

/** The call of a thread. `attributes` is undefined if its span is not exported. */
export interface TracedCall extends TraceIds {
  attributes?: SpanAttributes | undefined;
}

/** The calls of one thread. */
export class CurrentTrace {
  readonly #storage = new AsyncLocalStorage<TracedCall>();

  /** The current call; undefined outside of calls, and for calls without a trace. */
  get current(): TracedCall | undefined {
    return this.#storage.getStore();
  }

  /** Calls `action` for a call. */
  run<T>(call: TracedCall, action: () => T): T {
    return this.#storage.run(call, action);
  }
}
