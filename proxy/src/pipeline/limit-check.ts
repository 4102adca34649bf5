/**
 * Evaluates the limits of a rule for a request: local ones first, since they cost nothing and are refunded if a global one
 * denies the request; then the rate limit service, with the body read where a limit is about what it asks for. What the limits
 * said goes onto the record and the trace; what becomes of the request is the caller's.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { headerOf } from "../cel/variables.ts";
import type { RequestView } from "../cel/request-view.ts";
import { maxAiRequestBytes } from "../llm/ai-request.ts";
import { hasNoModel, type LlmRequest, llmRequestNames, readLlmRequest } from "../llm/llm-request.ts";
import type { JsonReading } from "../llm/request-json.ts";
import type { Denial } from "../policy/ratelimit/denial.ts";
import { deniedResponse } from "../policy/ratelimit/denied-response.ts";
import type { GlobalResult, GlobalLimitSet } from "../policy/ratelimit/global/global-limiter.ts";
import type { LocalResult, Allowed } from "../policy/ratelimit/local-limiter.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { RequestTrace } from "../telemetry/trace/request-trace.ts";
import { RequestReservation } from "./request-reservation.ts";
import { readBody } from "./body-reading.ts";
import type { CompiledRule } from "./compiled-rule.ts";
import {
  bodyEncoded,
  costTooCostly,
  limitUnavailable,
  limitValueTooLong,
  type LocalReply,
  unreadableBody,
  bodyNotBuffered,
} from "./local-replies.ts";
import type { RequestBody } from "./request-body.ts";
import { callLines } from "./limit-call-lines.ts";
import { globalPolicy, localPolicy, severityOf } from "./trace-messages.ts";

/** The decision of all limits of a rule together: `denied` gets a 429. The header section is flat. */
export type LimitCheckResult =
  | { readonly kind: "allowed" }
  /** A limit is exhausted. */
  | { readonly kind: "denied"; readonly denial: Denial; readonly headers: string[]; readonly body: string | Buffer }
  /** No limit could be asked, and the request must not pass unasked; `denial` where a service was to be. */
  | { readonly kind: "unavailable"; readonly denial: Denial | undefined; readonly reply: LocalReply };

/** One request, and where the decision is recorded. */
export interface LimitCheckOptions {
  /** The time of the decision, for local counters and the trace. */
  readonly clock: Clock;
  /** Gets the decision of each entry. */
  readonly record: RequestRecord;
  /** Absent if the request is not traced. */
  readonly trace: RequestTrace | undefined;
  /** The model that the backend will be asked for, whatever the body says; absent where the client chooses. */
  readonly prescribedModel: string | undefined;
  /** The request's body, if it has one; called only where a limit is about it. */
  readonly takeBody: () => RequestBody | undefined;
  /** Wraps callbacks that are called after `run`, so that their failures are reported as those of `run` are. */
  readonly guarded: <Value>(action: (value: Value) => void) => (value: Value) => void;
}

/** The check of one request. `run` is called once. */
export class LimitCheck {
  readonly #options: LimitCheckOptions;
  #askedMs: number | undefined;
  #reservation: RequestReservation | undefined;
  /** A rate limit service is to decide, and has not. */
  #isPending = false;
  #isAbandoned = false;

  constructor(options: LimitCheckOptions) {
    this.#options = options;
  }

  /** What the request holds of its limits; absent while none has let it pass. */
  get reservation(): RequestReservation | undefined {
    return this.#reservation;
  }

  /** While the rate limit service decides: since when; monotonic. */
  get askedMs(): number | undefined {
    return this.#askedMs;
  }

  /** Calls `done` once, within this call where nothing has to be waited for; never after `abandon`. */
  run(rule: CompiledRule, view: RequestView, done: (verdict: LimitCheckResult) => void): void {
    const { clock, record, trace } = this.#options;
    const local = rule.limits.isEmpty ? undefined : rule.limits.decide(view, clock.monotonicMs());
    if (local !== undefined) {
      record.decisions = local.decisions;
      if (trace !== undefined) traceLocal(trace, rule, view, local);
    }
    if (local?.kind === "denied") {
      const { rawHeaders, body } = deniedResponse(local);
      done({ kind: "denied", denial: { kind: "local", denied: local }, headers: [...rawHeaders], body });
      return;
    }
    this.#reservation = new RequestReservation(clock, local, undefined);
    if (rule.globalLimits === undefined) done({ kind: "allowed" });
    else this.#askGlobal(rule.globalLimits, view, local, done);
  }

  /** The decision is not needed any more: refunds what the request has consumed so far. */
  abandon(): void {
    this.#isAbandoned = true;
    if (this.#isPending) this.#reservation?.refund();
  }

  #askGlobal(
    limits: GlobalLimitSet,
    view: RequestView,
    local: Allowed | undefined,
    done: (verdict: LimitCheckResult) => void,
  ): void {
    const { clock, guarded, takeBody } = this.#options;
    const { prescribedModel } = this.#options;
    const withPrescribed = (llm: LlmRequest): LlmRequest =>
      prescribedModel === undefined ? llm : { ...llm, requestModel: prescribedModel };
    const startMs = clock.monotonicMs();
    this.#askedMs = startMs;
    this.#isPending = true;
    const reject = (reply: LocalReply): void => done({ kind: "unavailable", denial: undefined, reply });
    const ask = (asked: RequestView): void => {
      if (limits.costsTooMuch(asked)) {
        reject(costTooCostly);
        return;
      }
      limits.decide(
        asked,
        guarded((admission) => {
          this.#askedMs = undefined;
          if (!this.#isAbandoned) done(this.#conclude(admission, local, startMs));
          else if (admission.kind === "allowed") admission.reservation.refund();
        }),
        this.#options.trace?.log && callLines(this.#options.trace.log.ratelimit),
      );
    };
    const body = limits.needsBody ? takeBody() : undefined;
    if (body === undefined) {
      ask(limits.needsBody ? { ...view, llm: withPrescribed(noLlmRequest) } : view);
      return;
    }
    body.keepUpTo(maxAiRequestBytes);
    body.collect(
      guarded((whole) => {
        if (whole === undefined) {
          reject(bodyNotBuffered(body));
        } else if (hasNoModel(whole)) {
          ask({ ...view, llm: withPrescribed(noLlmRequest) });
        } else {
          const ended = guarded<JsonReading>((reading) => {
            const llm = readLlmRequest(reading);
            // What cannot be read must not get past the limit.
            if (typeof llm !== "string") ask({ ...view, llm: withPrescribed(llm) });
            else reject(isEncoded(view) ? bodyEncoded : unreadableBody(llm));
          });
          readBody(body, whole, llmRequestNames, ended);
        }
      }),
    );
  }

  #conclude(admission: GlobalResult, local: Allowed | undefined, startMs: number): LimitCheckResult {
    const { clock, record, trace } = this.#options;
    this.#isPending = false;
    if (trace !== undefined) traceGlobal(trace, admission, startMs);
    record.globalDecisions = admission.decisions;
    switch (admission.kind) {
      case "allowed":
        this.#reservation = new RequestReservation(clock, local, admission.reservation);
        return { kind: "allowed" };
      case "unavailable": {
        const denial: Denial = { kind: "global", limit: admission.limit, decision: admission.decision };
        return { kind: "unavailable", denial, reply: limitUnavailable };
      }
      case "tooLong":
        return { kind: "unavailable", denial: undefined, reply: limitValueTooLong };
      case "denied": {
        const { limit, decision, headers, body } = admission;
        this.#reservation?.refund();
        return { kind: "denied", denial: { kind: "global", limit, decision }, headers: [...headers], body };
      }
    }
  }
}

const noLlmRequest: LlmRequest = {};

function isEncoded(view: RequestView): boolean {
  return (headerOf(view, "content-encoding")?.toLowerCase() ?? "identity") !== "identity";
}

function traceLocal(trace: RequestTrace, rule: CompiledRule, view: RequestView, { kind }: LocalResult): void {
  for (const figures of rule.limits.figures(view)) {
    trace.emit(localPolicy(figures, kind === "allowed"), figures.isAllowed ? "success" : "warn");
  }
}

function traceGlobal(trace: RequestTrace, { decisions }: GlobalResult, startMs: number): void {
  for (const decision of decisions) trace.emit(globalPolicy(decision), severityOf(decision.outcome), startMs);
}
