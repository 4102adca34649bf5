/**
 * Calls the rate limit services of the rule's global limits, or uses their fallback. A request that they deny gets its
 * local units back.
 */
import { isLimitCall, loopField } from "../../filters/loop.ts";
import type { GlobalLimitsDecision, GlobalReport } from "../../policy/ratelimit/global/global-limiter.ts";
import type { CallWatcher } from "../../policy/ratelimit/global/call-watcher.ts";
import type { UnavailableCause } from "../../policy/ratelimit/decision.ts";
import type { ShownLimit } from "../../policy/ratelimit/shown-limit.ts";
import type { RequestTrace } from "../../telemetry/trace/request-trace.ts";
import { callLines } from "../limit-call-lines.ts";
import { callSpans } from "../limit-call-spans.ts";
import {
  costTooCostly,
  limitLoopDetected,
  limitUnavailable,
  limitValueTooLong,
  modelUnpriced,
} from "../local-replies.ts";
import { RequestReservation } from "../request-reservation.ts";
import { limitView, type Stage, type StagedRequest, type StageResult } from "../stage.ts";
import { globalPolicy, severityOf } from "../trace-messages.ts";
import { deny } from "./deny.ts";

export const globalLimits: Stage = {
  name: "global limits",
  run(request) {
    const { services, rule } = request;
    const limits = rule.globalLimits;
    if (limits === undefined) return "continue";
    if (isLimitCall(loopField(request.downstream.head.rawHeaders))) return request.reply(limitLoopDetected);
    const view = limitView(request);
    const startMs = services.clock.monotonicMs();
    return request.wait<GlobalLimitsDecision>({
      task: { kind: "globalCall", name: "rate limit service" },
      start: (done) => limits.decide(view, done, watcherOf(request)),
      proceed: (result) => proceed(request, result, startMs),
      onAbandoned: () => request.reservation?.refund(),
      onLate: (result) => {
        if (result.kind === "allowed") result.reservation.refund(services.clock.monotonicMs());
      },
    });
  },
};

/** Returns the watchers of the calls: for the log of a request, and for its spans. Undefined if there are none. */
function watcherOf({ trace, span, services }: StagedRequest): CallWatcher | undefined {
  const lines = trace?.log && callLines(trace.log.ratelimit);
  return span === undefined ? lines : callSpans(span, services.clock, lines);
}

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
      return deny(request, result.by, services.clock.monotonicMs(), allowingLimits(request, result.report));
  }
}

/** Returns the limits that allowed a request which another one denies; undefined if headers list none. */
function allowingLimits({ reservation }: StagedRequest, { listed }: GlobalReport): readonly ShownLimit[] | undefined {
  const local = reservation?.listed;
  return local === undefined || listed === undefined ? (local ?? listed) : [...local, ...listed];
}

function replyUnavailable(request: StagedRequest, cause: UnavailableCause): StageResult {
  if (cause === "costTooCostly") return request.reply(costTooCostly);
  if (cause === "valueTooLong") return request.reply(limitValueTooLong);
  request.reservation?.refund();
  if (cause === "unpriced") return request.reply(modelUnpriced);
  request.services.denied(request.record, cause);
  return request.reply(limitUnavailable);
}

function traceGlobal(trace: RequestTrace, { report }: GlobalLimitsDecision, startMs: number): void {
  for (const decision of report.decisions) trace.emit(globalPolicy(decision), severityOf(decision.outcome), startMs);
}
