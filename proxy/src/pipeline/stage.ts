/**
 * The contract of stages. A request passes the stages of its rule, one after the other, until one of them responds or
 * the last one forwards the request. `stages.ts` lists them in their order. A stage has no state: it reads the compiled
 * rule, and stores its result in the request for later stages.
 */
import type { Identities } from "../cel/identity.ts";
import type { RequestView } from "../cel/request-view.ts";
import type { Match } from "../ir/match.ts";
import type { Downstream } from "../listen/downstream.ts";
import type { LlmRequest } from "../llm/llm-request.ts";
import type { UsageEdit } from "../llm/usage-event-filter.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { RequestSpan } from "../telemetry/spans/request-span.ts";
import type { RequestTrace } from "../telemetry/trace/request-trace.ts";
import type { Forwarding } from "./attempts/forwarding.ts";
import type { ProviderChoice } from "./attempts/provider-choice.ts";
import type { RequestDeadline } from "./attempts/request-deadline.ts";
import type { RequestBody } from "./body/request-body.ts";
import type { BackendTarget, CompiledRule, CompiledTarget } from "./compiled-rule.ts";
import type { LocalReply } from "./local-replies.ts";
import type { OutgoingRequest } from "./provider-request.ts";
import type { RequestReservation } from "./request-reservation.ts";
import type { StageServices } from "./services.ts";

/**
 * The result of a stage.
 * - `continue`: the next stage runs.
 * - `responded`: a response was sent, and no other stage runs.
 * - `waiting`: the request continues when the `Wait` of the stage ends.
 * - a `Forwarding`: it forwards the request, and no other stage runs.
 */
export type StageResult = "continue" | "responded" | "waiting" | Forwarding;

/** One step of a request. */
export interface Stage {
  /** The name, for tests and error messages. */
  readonly name: string;
  run(request: StagedRequest): StageResult;
}

/** A wait of a stage for a rate limit service, or for the body of the request. */
export interface Wait<Value> {
  /** Shown to operators while the request waits; absent: nothing is shown. */
  readonly task?: { readonly kind: "globalCall"; readonly name: string };
  /** Starts the operation. It calls `done` at most once: within this call, or later. */
  start(done: (value: Value) => void): void;
  /** Continues the request with the result of the operation. Not called after the end of the request. */
  proceed(value: Value): StageResult;
  /** Called when the request ends before `done` was called. */
  onAbandoned?(): void;
  /** Called when `done` is called after the end of the request. */
  onLate?(value: Value): void;
}

/** The interface of a request for its stages. */
export interface StagedRequest {
  readonly services: StageServices;
  readonly downstream: Downstream;
  /** The values for the access log and the metrics. */
  readonly record: RequestRecord;
  /** Undefined if the request is not traced. */
  readonly trace: RequestTrace | undefined;
  /** Undefined if spans are not exported. */
  readonly span: RequestSpan | undefined;
  readonly rule: CompiledRule;
  /** The match of the rule that the request meets. */
  readonly match: Match;
  /** As `RouteMatch.isQueryAmbiguous`. */
  readonly isQueryAmbiguous: boolean;
  /** The start of the request, on the monotonic clock. */
  readonly startMs: number;
  /** The address of the client; for IPv6, that of its network. */
  readonly client: string;
  /** The values of the request for expressions, with one work budget for all of them. */
  readonly view: RequestView;
  /**
   * Returns the body; undefined if there is none. Reading it sends 100 (Continue), so stages take it only to use it.
   */
  takeBody(): RequestBody | undefined;

  /** The target that `pickTarget` has picked; undefined before it, and if the rule has no target to pick. */
  target: CompiledTarget | undefined;
  /** The providers of the request; undefined where the picked reference has no list of them. */
  providers: ProviderChoice | undefined;
  /** The values of the body that `requestModel` has read; undefined if no limit uses them. */
  llm: LlmRequest | undefined;
  /** The identities that `authenticate` has verified; undefined before it, and if no policy authenticates requests. */
  identities: Identities | undefined;
  /** The reservation in the limits; undefined until a limit has allowed the request. */
  reservation: RequestReservation | undefined;
  /** The value of `CDN-Loop` for the backend, set by `detectLoop`. */
  loop: string;
  /** Set by `requestTimeout`; undefined if the rule has none. */
  deadline: RequestDeadline | undefined;
  /** The request to the backend, which `requestFilters` creates and later stages change. */
  outgoing: OutgoingToBackend | undefined;

  /** Sends a local reply. */
  reply(reply: LocalReply): "responded";
  /**
   * Sends a response of a stage, without the fields of `cors`, and adds `x-request-id`.
   *
   * @param headers names and values alternate.
   */
  respond(status: number, headers: string[], body: Buffer | string): "responded";
  /** As `respond`, with the fields of `cors`. Without them, a browser hides a response from scripts. */
  respondWithCors(status: number, headers: string[], body: Buffer | string): "responded";
  /**
   * Starts a wait. If `start` calls `done` immediately, the request does not wait. A stage returns the result of this
   * call.
   */
  wait<Value>(wait: Wait<Value>): StageResult;
  /** Ends the request at any time: sends `reply`, or resets a response that has started. */
  abort(reply: LocalReply): void;
  /** Ends the request because of an internal error. Never throws. */
  fault(error: unknown): void;
}

/** A request to a backend, while stages prepare it. */
export interface OutgoingToBackend {
  readonly target: BackendTarget;
  readonly request: OutgoingRequest;
  /** The edit of the usage event of a stream; undefined if the client gets the event, or if there is none. */
  readonly usageEdit: UsageEdit | undefined;
}

/** Returns the prepared request. Throws if no stage has prepared one, which the order in `stages.ts` excludes. */
export function outgoingOf({ outgoing }: StagedRequest): OutgoingToBackend {
  if (outgoing === undefined) {
    throw new Error("a stage needs the request to the backend, and none before it prepares one");
  }
  return outgoing;
}

/** Returns the backend that was picked. Throws if there is none, which the order in `stages.ts` excludes. */
export function backendOf({ target }: StagedRequest): BackendTarget {
  if (target?.kind !== "backend") throw new Error("a stage needs a backend, and none before it picks one");
  return target;
}

/** Returns the values of the request for the expressions of limits, with those that `requestModel` has read. */
export function limitView({ view, llm }: StagedRequest): RequestView {
  return llm === undefined ? view : { ...view, llm };
}
