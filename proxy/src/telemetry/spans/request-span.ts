/**
 * The span of one request, and of the calls that it makes: attempts at backends, and calls of rate limit services. While the
 * request is in progress only times and outcomes are kept; `request-tracing.ts` makes spans of them at its end, if they
 * are exported at all.
 */
import { newSpanId } from "@gatewayproxy/runtime/ids";
import type { Propagation } from "@gatewayproxy/runtime/propagation";
import type { AiBackend } from "../../ir/snapshot.ts";

/** The place of a request in its trace. */
export interface RequestSpanPlace {
  readonly traceId: string;
  readonly spanId: string;
  /** The span of the client; undefined if the trace begins here. */
  readonly parentSpanId: string | undefined;
  readonly isSampled: boolean;
  readonly tracestate: string | undefined;
  readonly baggage: string | undefined;
}

/** An attempt at an endpoint of a backend. */
export interface AttemptSpan {
  readonly kind: "attempt";
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

/** A call of a rate limit service for a decision. */
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

/** Maximum characters of `baggage` that a rate limit service gets. Servers of gRPC accept 8 KiB of metadata or more. */
const maxServiceBaggage = 1_024;

/** The span of a request while it is in progress. */
export class RequestSpan implements RequestSpanPlace {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly isSampled: boolean;
  readonly tracestate: string | undefined;
  readonly baggage: string | undefined;
  /** The start of the request, monotonic. */
  readonly startMs: number;
  /** Whether its calls are kept, since they may be exported. */
  readonly isRecording: boolean;
  readonly #propagation: Propagation;
  /** In the order of their starts. */
  readonly calls: (AttemptSpan | ServiceCallSpan)[] = [];
  /** The path of the match that the request meets (`http.route`); undefined for none. */
  pathMatch: string | undefined;

  constructor(place: RequestSpanPlace, propagation: Propagation, startMs: number, isRecording: boolean) {
    this.traceId = place.traceId;
    this.spanId = place.spanId;
    this.parentSpanId = place.parentSpanId;
    this.isSampled = place.isSampled;
    this.tracestate = place.tracestate;
    this.baggage = place.baggage;
    this.startMs = startMs;
    this.isRecording = isRecording;
    this.#propagation = propagation;
  }

  /** Keeps the start of an attempt. */
  startAttempt(attempt: Omit<AttemptSpan, "kind" | "spanId" | "endMs" | "status" | "failure">): AttemptSpan {
    const span: AttemptSpan = {
      kind: "attempt",
      spanId: this.#childId(),
      ...attempt,
      endMs: 0,
      status: 0,
      failure: undefined,
    };
    if (this.isRecording) this.calls.push(span);
    return span;
  }

  /** Keeps the start of a call of a rate limit service. */
  startServiceCall(call: Omit<ServiceCallSpan, "kind" | "spanId" | "endMs" | "code" | "failure">): ServiceCallSpan {
    const span: ServiceCallSpan = {
      kind: "serviceCall",
      spanId: this.#childId(),
      ...call,
      endMs: 0,
      code: undefined,
      failure: undefined,
    };
    if (this.isRecording) this.calls.push(span);
    return span;
  }

  /** Returns the fields that make a span the parent of what is called: names in lower case and values, in turn. */
  contextOf({ spanId }: { readonly spanId: string }): string[] {
    const { traceId, isSampled, tracestate, baggage } = this;
    return this.#propagation.fieldsOf({ traceId, spanId, isSampled, tracestate, baggage });
  }

  /**
   * As `contextOf`, for a rate limit service, without a long `baggage`: a client could otherwise make calls fail by their
   * size, and so be served by the failure mode of a limit.
   */
  serviceContextOf({ spanId }: { readonly spanId: string }): string[] {
    const { traceId, isSampled, tracestate } = this;
    const baggage = (this.baggage?.length ?? 0) > maxServiceBaggage ? undefined : this.baggage;
    return this.#propagation.fieldsOf({ traceId, spanId, isSampled, tracestate, baggage });
  }

  /** Returns `fields` with the context of a span in place of that of the client. @param fields names and values in turn. */
  withContextOf(span: { readonly spanId: string }, fields: readonly string[]): string[] {
    const own = this.#propagation.without(fields);
    own.push(...this.contextOf(span));
    return own;
  }

  /** Returns `fields`, in which the request is the parent, with `span` as the parent. What a filter has removed stays absent. */
  withParent({ spanId }: { readonly spanId: string }, fields: readonly string[]): readonly string[] {
    if (spanId === this.spanId) return fields;
    const own = this.contextOf(this);
    const theirs = this.contextOf({ spanId });
    const edited = [...fields];
    for (let at = 0; at + 1 < own.length; at += 2) {
      for (let place = 0; place + 1 < edited.length; place += 2) {
        if (edited[place] === own[at] && edited[place + 1] === own[at + 1]) edited[place + 1] = theirs[at + 1] ?? "";
      }
    }
    return edited;
  }

  /** A span that is not kept has the id of the request, so that what is called finds a parent that is known. */
  #childId(): string {
    return this.isRecording ? newSpanId() : this.spanId;
  }
}
