/**
 * Calls the rate limit services of the rule's global limits, or uses their fallback. A request that they deny gets its local
 * units back.
 */
import { denialResponse } from "../../policy/ratelimit/denial-response.ts";
import type { GlobalLimitsDecision } from "../../policy/ratelimit/global/global-limiter.ts";
import type { UnavailableCause } from "../../policy/ratelimit/decision.ts";
import type { RequestTrace } from "../../telemetry/trace/request-trace.ts";
import { callLines } from "../limit-call-lines.ts";
import { costTooCostly, limitUnavailable, limitValueTooLong } from "../local-replies.ts";
import { RequestReservation } from "../request-reservation.ts";
import { limitView, type Stage, type StagedRequest, type StageResult } from "../stage.ts";
import { globalPolicy, severityOf } from "../trace-messages.ts";
import { deny } from "./deny.ts";

export const globalLimits: Stage = {
  name: "global limits",
  run(request) {
    const { services, rule, trace } = request;
    const limits = rule.globalLimits;
    if (limits === undefined) return "continue";
    const view = limitView(request);
    const startMs = services.clock.monotonicMs();
    return request.wait<GlobalLimitsDecision>({
      task: { kind: "globalCall", name: "rate limit service" },
      start: (done) => limits.decide(view, done, trace?.log && callLines(trace.log.ratelimit)),
      proceed: (result) => proceed(request, result, startMs),
      onAbandoned: () => request.reservation?.refund(),
      onLate: (result) => {
        if (result.kind === "allowed") result.reservation.refund(services.clock.monotonicMs());
      },
    });
  },
};

function proceed(request: StagedRequest, result: GlobalLimitsDecision, startMs: number): StageResult {
  const { services, record, trace } = request;
  if (trace !== undefined) traceGlobal(trace, result, startMs);
  record.globalDecisions = result.report.decisions;
  switch (result.kind) {
    case "allowed":
      request.reservation ??= new RequestReservation(services.clock, undefined);
      request.reservation.addGlobal(result.reservation);
      return "continue";
    case "unavailable":
      return replyUnavailable(request, result.cause);
    case "denied":
      request.reservation?.refund();
      return deny(request, result.by, denialResponse(result.by, services.clock.monotonicMs()));
  }
}

function replyUnavailable(request: StagedRequest, cause: UnavailableCause): StageResult {
  if (cause === "costTooCostly") return request.reply(costTooCostly);
  if (cause === "valueTooLong") return request.reply(limitValueTooLong);
  request.reservation?.refund();
  request.services.denied(request.record, cause);
  return request.reply(limitUnavailable);
}

function traceGlobal(trace: RequestTrace, { report }: GlobalLimitsDecision, startMs: number): void {
  for (const decision of report.decisions) trace.emit(globalPolicy(decision), severityOf(decision.outcome), startMs);
}
