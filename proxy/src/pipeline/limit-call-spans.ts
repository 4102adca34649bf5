/** Keeps the spans of the calls to rate limit services, and sends the context of each with its call. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { CallWatcher } from "../policy/ratelimit/global/call-watcher.ts";
import type { PlannedCall } from "../policy/ratelimit/global/calls.ts";
import { methods } from "../policy/ratelimit/global/service-client.ts";
import type { RequestSpan, ServiceCallSpan } from "../telemetry/spans/request-span.ts";

/** Returns the watcher of a request's calls. @param next observes them, too. */
export function callSpans(request: RequestSpan, clock: Clock, next: CallWatcher | undefined): CallWatcher {
  const spans = new Map<PlannedCall, ServiceCallSpan>();
  return {
    callStarted(limit, plan) {
      next?.callStarted(limit, plan);
      const span = request.startServiceCall({
        startMs: clock.monotonicMs(),
        service: limit.service,
        method: methods[plan.method].slice(1),
        domain: limit.domain,
        policy: limit.policy,
        descriptors: plan.descriptors.length,
      });
      spans.set(plan, span);
      return request.serviceContextOf(span);
    },
    callEnded(limit, plan, response, durationMs) {
      next?.callEnded(limit, plan, response, durationMs);
      const span = spans.get(plan);
      if (span === undefined) return;
      span.endMs = clock.monotonicMs();
      if (response.kind === "responded") span.code = response.response.overallCode;
      else span.failure = response.cause;
    },
  };
}
