/** Checks the local limits of the rule: counts the request in all of their counters, or denies it and counts in none. */
import type { RequestView } from "../../cel/request-view.ts";
import { deniedResponse } from "../../policy/ratelimit/denied-response.ts";
import type { LocalResult } from "../../policy/ratelimit/local-limiter.ts";
import type { RequestTrace } from "../../telemetry/trace/request-trace.ts";
import type { CompiledRule } from "../compiled-rule.ts";
import { RequestReservation } from "../request-reservation.ts";
import type { Stage } from "../stage.ts";
import { localPolicy } from "../trace-messages.ts";
import { deny } from "./deny.ts";

export const localLimits: Stage = {
  name: "local limits",
  run(request) {
    const { services, record, trace, rule, view } = request;
    const result = rule.limits.decide(view, services.clock.monotonicMs());
    record.decisions = result.decisions;
    if (trace !== undefined) traceLocal(trace, rule, view, result);
    if (result.kind === "denied") {
      const { rawHeaders, body } = deniedResponse(result);
      return deny(request, { kind: "local", denied: result }, rawHeaders, body);
    }
    request.reservation = new RequestReservation(services.clock, result);
    return "continue";
  },
};

function traceLocal(trace: RequestTrace, rule: CompiledRule, view: RequestView, { kind }: LocalResult): void {
  for (const figures of rule.limits.figures(view)) {
    trace.emit(localPolicy(figures, kind === "allowed"), figures.isAllowed ? "success" : "warn");
  }
}
