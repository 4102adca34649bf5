/**
 * Checks the local limits of the rule: counts the request in all of their counters, or denies it and counts in none.
 */
import type { LocalDecision } from "../../policy/ratelimit/local-limiter.ts";
import type { RequestTrace } from "../../telemetry/trace/request-trace.ts";
import { costTooCostly, modelUnpriced } from "../local-replies.ts";
import { RequestReservation } from "../request-reservation.ts";
import { limitView, type Stage } from "../stage.ts";
import { localPolicy, severityOf } from "../trace-messages.ts";
import { deny } from "./deny.ts";

export const localLimits: Stage = {
  name: "local limits",
  run(request) {
    const { services, record, trace, rule } = request;
    const nowMs = services.clock.monotonicMs();
    const decision = rule.limits.decide(limitView(request), nowMs, trace !== undefined);
    record.decisions = decision.report.decisions;
    if (trace !== undefined) traceLocal(trace, decision);
    if (decision.kind === "denied") return deny(request, decision.by, nowMs);
    if (decision.kind === "unavailable") {
      return request.reply(decision.cause === "unpriced" ? modelUnpriced : costTooCostly);
    }
    request.reservation = new RequestReservation(services.clock, decision);
    return "continue";
  },
};

function traceLocal(trace: RequestTrace, { kind, report }: LocalDecision): void {
  for (const figures of report.figures ?? []) {
    trace.emit(localPolicy(figures, kind === "allowed"), severityOf(figures.outcome));
  }
}
