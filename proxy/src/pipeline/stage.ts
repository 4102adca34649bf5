/**
 * The contract of the stages that a request passes, one after the other, until one of them responds or the last one forwards
 * the request. `stages.ts` lists them in their order. A stage has no state of its own: it reads the compiled rule, and leaves
 * its result on the request for the stages behind it.
 */
import type { Identities } from "../cel/identity.ts";
import type { RequestView } from "../cel/request-view.ts";
import type { Match } from "../ir/match.ts";
import type { Downstream } from "../listen/downstream.ts";
import type { LlmRequest } from "../llm/llm-request.ts";
import type { UsageEdit } from "../llm/usage-event-filter.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
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
 * - `responded`: the client has its response, and no other stage runs.
 * - `waiting`: the request continues when the `Wait` of the stage ends.
 * - attempts: the request is forwarded by them, and no other stage runs.
 */
export type StageResult = "continue" | "responded" | "waiting" | Forwarding;

/** One step of a request. */
export interface Stage {
  /** For tests and errors. */
  readonly name: string;
  run(request: StagedRequest): StageResult;
}

/** Something that a stage waits for: a rate limit service, or the body of the request. */
export interface Wait<Value> {
  /** Shown to operators while the request waits; absent: nothing is shown. */
  readonly task?: { readonly kind: "globalCall"; readonly name: string };
  /** Begins. Calls `done` at most once: within this call, or later. */
  start(done: (value: Value) => void): void;
  /** Continues the request with what it has waited for. Not called after the end of the request. */
  proceed(value: Value): StageResult;
  /** The request has ended before `done` was called. */
  onAbandoned?(): void;
  /** `done` was called after the end of the request. */
  onLate?(value: Value): void;
}

/** A request as its stages see it. */
export interface StagedRequest {
  readonly services: StageServices;
  readonly downstream: Downstream;
  /** Gets what the access log and the metrics show. */
  readonly record: RequestRecord;
  /** Absent if the request is not traced. */
  readonly trace: RequestTrace | undefined;
  readonly rule: CompiledRule;
  /** The match of the rule that the request meets. */
  readonly match: Match;
  /** As `RouteMatch.isQueryAmbiguous`. */
  readonly isQueryAmbiguous: boolean;
  /** The start of the request, on the monotonic clock. */
  readonly startMs: number;
  /** Address of the client; an IPv6 address as its network. */
  readonly client: string;
  /** The request as expressions see it, with one budget of work for all of them. */
  readonly view: RequestView;
  /** The body; undefined if there is none. Reading it sends 100 (Continue), so it is taken only when it is needed. */
  takeBody(): RequestBody | undefined;

  /** What `pickTarget` has picked; undefined before it, and where the rule has nothing to pick. */
  target: CompiledTarget | undefined;
  /** The providers of the request; undefined where the picked reference has no list of them. */
  providers: ProviderChoice | undefined;
  /** What `requestModel` has read of the body; undefined where no limit is about it. */
  llm: LlmRequest | undefined;
  /** What `authenticate` has verified; undefined before it, and where no policy authenticates. */
  identities: Identities | undefined;
  /** What the request holds of its limits; undefined while none has allowed it. */
  reservation: RequestReservation | undefined;
  /** The value of `CDN-Loop` for the backend, set by `detectLoop`. */
  loop: string;
  /** Set by `requestTimeout`; undefined if the rule has none. */
  deadline: RequestDeadline | undefined;
  /** The request to the backend of `requestFilters`, as the stages behind it change it. */
  outgoing: OutgoingToBackend | undefined;

  /** Sends a local reply. */
  reply(reply: LocalReply): "responded";
  /** Sends a response of a stage, without the fields of `cors`. @param headers flat; the request id is added. */
  respond(status: number, headers: string[], body: Buffer | string): "responded";
  /** As `respond`, with the fields of `cors`. Without them, a browser hides a response from scripts. */
  respondWithCors(status: number, headers: string[], body: Buffer | string): "responded";
  /** Waits, unless `start` calls `done` immediately. A stage returns its result. */
  wait<Value>(wait: Wait<Value>): StageResult;
  /** Ends the request at any time: with `reply`, or by truncating a response that has started. */
  abort(reply: LocalReply): void;
  /** Ends the request because of an internal error. Never throws. */
  fault(error: unknown): void;
}

/** A request to a backend, while stages prepare it. */
export interface OutgoingToBackend {
  readonly target: BackendTarget;
  readonly request: OutgoingRequest;
  /** What becomes of the usage event of a stream; undefined where the client gets it, or there is none. */
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

/** Returns the request as the expressions of limits see it, with what `requestModel` has read. */
export function limitView({ view, llm }: StagedRequest): RequestView {
  return llm === undefined ? view : { ...view, llm };
}
