/** Keeps the spans of the calls to rate limit services, and sends the context of each with its call. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { GlobalLimit } from "../ir/global-limit.ts";
import type { CallWatcher } from "../policy/ratelimit/global/call-watcher.ts";
import type { PlannedCall } from "../policy/ratelimit/global/calls.ts";
import type { RateLimitRequest } from "../policy/ratelimit/global/messages.ts";
import type { ServiceOutcome } from "../policy/ratelimit/global/service-call.ts";
import { type Method, methods } from "../policy/ratelimit/global/service-client.ts";
import type { RequestSpan, ServiceCallSpan } from "../telemetry/spans/request-span.ts";

/** Returns the watcher of a request's calls. @param next observes them, too. */
export function callSpans(request: RequestSpan, clock: Clock, next: CallWatcher | undefined): CallWatcher {
  const spans = new Map<PlannedCall, ServiceCallSpan>();
  const start = (limit: GlobalLimit, method: Method, { descriptors }: RateLimitRequest) => {
    if (!request.keepsCalls) return undefined;
    return request.startServiceCall({
      startMs: clock.monotonicMs(),
      service: limit.service,
      method: methods[method].slice(1),
      domain: limit.domain,
      policy: limit.policy,
      descriptors: descriptors.length,
    });
  };
  const end = (span: ServiceCallSpan, response: ServiceOutcome): void => {
    if (response.kind === "responded") span.code = response.response.overallCode;
    else span.failure = response.cause;
    request.endCall(span, clock.monotonicMs());
  };
  return {
    callStarted(limit, plan) {
      next?.callStarted(limit, plan);
      const span = start(limit, plan.method, plan.call);
      if (span !== undefined) spans.set(plan, span);
      return request.serviceContextOf(span ?? request);
    },
    callEnded(limit, plan, response, durationMs) {
      next?.callEnded(limit, plan, response, durationMs);
      const span = spans.get(plan);
      spans.delete(plan);
      if (span !== undefined) end(span, response);
    },
    laterCallStarted(limit, method, call) {
      const span = start(limit, method, call);
      const ended = (response: ServiceOutcome): void => {
        if (span !== undefined) end(span, response);
      };
      return { fields: request.serviceContextOf(span ?? request), ended };
    },
  };
}
