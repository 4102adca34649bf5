/**
 * The span of one request, and of the calls that it makes: attempts at backends, and calls of rate limit services.
 * While the request is in progress only times and outcomes are kept; `request-tracing.ts` makes spans of them at its
 * end, if they are exported at all.
 */
import { newSpanId } from "@gatewayproxy/runtime/ids";
import type { Extracted, Propagation } from "@gatewayproxy/runtime/propagation";
import type { AiBackend } from "../../ir/snapshot.ts";

/** What a span begins with. */
export interface RequestSpanOptions {
  /** What the client has sent. */
  readonly context: Extracted;
  readonly traceId: string;
  readonly isSampled: boolean;
  readonly propagation: Propagation;
  /** The start of the request, monotonic. */
  readonly startMs: number;
  /** Whether calls are kept, since they may be exported. */
  readonly isRecording: boolean;
}

/** An attempt at an endpoint of a backend, or a copy of the request for a mirror. */
export interface AttemptSpan {
  readonly kind: "attempt" | "copy";
  readonly spanId: string;
  /** Monotonic. */
  readonly startMs: number;
  /** Monotonic; 0 while it is in progress. */
  endMs: number;
  readonly backend: string;
  readonly host: string;
  readonly port: number;
  readonly scheme: "http" | "https";
  readonly method: string;
  readonly path: string;
  readonly ai: AiBackend | undefined;
  /** 0 without a response. */
  status: number;
  /** The kind of the failure; undefined for none. */
  failure: string | undefined;
}

/** A call of a rate limit service: for the decision, or a later one. */
export interface ServiceCallSpan {
  readonly kind: "serviceCall";
  readonly spanId: string;
  /** Monotonic. */
  readonly startMs: number;
  /** Monotonic; 0 while it is in progress. */
  endMs: number;
  /** The key of the service. */
  readonly service: string;
  /** `package.Service/Method` */
  readonly method: string;
  readonly domain: string;
  readonly policy: string;
  readonly descriptors: number;
  /** The overall code of the response; undefined without a response. */
  code: string | undefined;
  /** The cause of the failure; undefined for none. */
  failure: string | undefined;
}

/** A call of a request. */
export type CallSpan = AttemptSpan | ServiceCallSpan;

/** Calls of one request that have spans. A session over a WebSocket makes some for each response. */
const maxCalls = 128;

/** Maximum characters of `baggage` that a rate limit service gets. Servers of gRPC accept 8 KiB of metadata or more. */
const maxServiceBaggage = 1_024;

const noCalls: readonly CallSpan[] = [];

/** The span of a request while it is in progress. */
export class RequestSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
  /** The start of the request, monotonic. */
  readonly startMs: number;
  readonly #context: Extracted;
  readonly #propagation: Propagation;
  readonly #isRecording: boolean;
  #ownFields: readonly string[] | undefined;
  /** Undefined while there are none. */
  #calls: CallSpan[] | undefined;
  /** Gets each call that ends after its request; undefined before that, and if the request is not exported. */
  onLateEnd: ((call: CallSpan) => void) | undefined;
  /** The path of the match that the request meets (`http.route`); undefined for none. */
  pathMatch: string | undefined;

  constructor({ context, traceId, isSampled, propagation, startMs, isRecording }: RequestSpanOptions) {
    this.traceId = traceId;
    this.spanId = newSpanId();
    this.isSampled = isSampled;
    this.startMs = startMs;
    this.#context = context;
    this.#propagation = propagation;
    this.#isRecording = isRecording;
  }

  /** The span of the client; undefined if the trace begins here. */
  get parentSpanId(): string | undefined {
    return this.#context.parent?.spanId;
  }

  get tracestate(): string | undefined {
    return this.#context.tracestate;
  }

  /** The calls that are kept, in the order of their starts. */
  get calls(): readonly CallSpan[] {
    return this.#calls ?? noCalls;
  }

  /**
   * Whether the next call is kept. What another one calls gets the request as its parent, so that it finds a parent
   * that is known.
   */
  get keepsCalls(): boolean {
    return this.#isRecording && this.calls.length < maxCalls;
  }

  /** Keeps the start of an attempt. Call it only if `keepsCalls`. */
  startAttempt(
    attempt: Omit<AttemptSpan, "kind" | "spanId" | "endMs" | "status" | "failure">,
    kind: AttemptSpan["kind"] = "attempt",
  ): AttemptSpan {
    return this.#kept({ kind, spanId: newSpanId(), ...attempt, endMs: 0, status: 0, failure: undefined });
  }

  /** Keeps the start of a call of a rate limit service. Call it only if `keepsCalls`. */
  startServiceCall(call: Omit<ServiceCallSpan, "kind" | "spanId" | "endMs" | "code" | "failure">): ServiceCallSpan {
    const kind = "serviceCall";
    return this.#kept({ kind, spanId: newSpanId(), ...call, endMs: 0, code: undefined, failure: undefined });
  }

  /** Ends a call, which may have outlasted the request. @param endMs monotonic. */
  endCall(call: CallSpan, endMs: number): void {
    call.endMs = endMs;
    this.onLateEnd?.(call);
  }

  /** Returns the fields that make a span the parent of what is called: names in lower case and values, in turn. */
  contextOf({ spanId }: { readonly spanId: string }): string[] {
    const { traceId, isSampled } = this;
    const { tracestate, baggage } = this.#context;
    return this.#propagation.fieldsOf({ traceId, spanId, isSampled, tracestate, baggage });
  }

  /**
   * As `contextOf`, for a rate limit service, without a long `baggage`: a client could otherwise make calls fail by
   * their size, and so be served by the failure mode of a limit.
   */
  serviceContextOf({ spanId }: { readonly spanId: string }): string[] {
    const { traceId, isSampled } = this;
    const { tracestate, baggage: sent } = this.#context;
    const baggage = (sent?.length ?? 0) > maxServiceBaggage ? undefined : sent;
    return this.#propagation.fieldsOf({ traceId, spanId, isSampled, tracestate, baggage });
  }

  /**
   * Returns `fields` with the request as the parent in place of the span of the client.
   *
   * @param fields names and values in turn, which may become the result.
   */
  withContext(fields: string[]): string[] {
    const kept = this.#context.hasFields ? this.#propagation.without(fields) : fields;
    for (const field of this.#fields) kept.push(field);
    return kept;
  }

  /**
   * Returns `fields`, in which the request is the parent, with `span` as the parent. What a filter has removed stays
   * absent.
   */
  withParent({ spanId }: { readonly spanId: string }, fields: readonly string[]): readonly string[] {
    const own = this.#fields;
    const theirs = this.contextOf({ spanId });
    const edited = [...fields];
    for (let at = 0; at + 1 < own.length; at += 2) {
      const [name, value, replacement = ""] = [own[at], own[at + 1], theirs[at + 1]];
      // Only some fields have the id of a span.
      if (value === replacement) continue;
      for (let place = 0; place + 1 < edited.length; place += 2) {
        if (edited[place] === name && edited[place + 1] === value) edited[place + 1] = replacement;
      }
    }
    return edited;
  }

  /** The fields that make the request the parent. */
  get #fields(): readonly string[] {
    return (this.#ownFields ??= this.contextOf(this));
  }

  #kept<Span extends CallSpan>(call: Span): Span {
    (this.#calls ??= []).push(call);
    return call;
  }
}
