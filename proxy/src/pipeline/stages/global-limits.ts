/**
 * Calls the rate limit services of the rule's global limits, or uses their fallback. A request that they deny gets its local
 * units back.
 */
import type { RequestView } from "../../cel/request-view.ts";
import type { GlobalResult } from "../../policy/ratelimit/global/global-limiter.ts";
import type { RequestTrace } from "../../telemetry/trace/request-trace.ts";
import { callLines } from "../limit-call-lines.ts";
import { costTooCostly, limitUnavailable, limitValueTooLong } from "../local-replies.ts";
import { RequestReservation } from "../request-reservation.ts";
import type { Stage, StagedRequest, StageResult } from "../stage.ts";
import { globalPolicy, severityOf } from "../trace-messages.ts";
import { deny } from "./deny.ts";

export const globalLimits: Stage = {
  name: "global limits",
  run(request) {
    const { services, rule, trace } = request;
    const limits = rule.globalLimits;
    if (limits === undefined) return "continue";
    const view = viewOf(request);
    if (limits.costsTooMuch(view)) return request.reply(costTooCostly);
    const startMs = services.clock.monotonicMs();
    return request.wait<GlobalResult>({
      task: { kind: "globalCall", name: "rate limit service" },
      start: (done) => limits.decide(view, done, trace?.log && callLines(trace.log.ratelimit)),
      proceed: (result) => proceed(request, result, startMs),
      onAbandoned: () => request.reservation?.refund(),
      onLate: (result) => {
        if (result.kind === "allowed") result.reservation.refund();
      },
    });
  },
};

function viewOf({ view, llm }: StagedRequest): RequestView {
  return llm === undefined ? view : { ...view, llm };
}

function proceed(request: StagedRequest, result: GlobalResult, startMs: number): StageResult {
  const { services, record, trace } = request;
  if (trace !== undefined) traceGlobal(trace, result, startMs);
  record.globalDecisions = result.decisions;
  switch (result.kind) {
    case "allowed":
      request.reservation ??= new RequestReservation(services.clock, undefined);
      request.reservation.addGlobal(result.reservation);
      return "continue";
    case "tooLong":
      return request.reply(limitValueTooLong);
    case "unavailable":
      request.reservation?.refund();
      services.denied(record, { kind: "global", limit: result.limit, decision: result.decision });
      return request.reply(limitUnavailable);
    case "denied":
      request.reservation?.refund();
      return deny(
        request,
        { kind: "global", limit: result.limit, decision: result.decision },
        result.headers,
        result.body,
      );
  }
}

function traceGlobal(trace: RequestTrace, { decisions }: GlobalResult, startMs: number): void {
  for (const decision of decisions) trace.emit(globalPolicy(decision), severityOf(decision.outcome), startMs);
}
