/** Adds to the span of a call what it asks for and what was decided. */
import { redactText } from "@gatewayproxy/runtime/redaction";
import type { RateLimitRequest, RateLimitResponse } from "../model/rate-limit.ts";
import type { RateLimitService } from "../service.ts";
import type { TracedCall } from "./current-trace.ts";
import type { ServiceTracing } from "./service-tracing.ts";

/** Wraps the service. Spans have the domain and numbers, and not the values of descriptors. */
export function tracedService(service: RateLimitService, { current }: ServiceTracing): RateLimitService {
  return {
    shouldRateLimit(request) {
      const call = current.current;
      if (call?.attributes === undefined) return service.shouldRateLimit(request);
      describe(call, request, undefined);
      const response = service.shouldRateLimit(request);
      if (response instanceof Promise) {
        return response.then((decided) => {
          describe(call, request, decided);
          return decided;
        });
      }
      describe(call, request, response);
      return response;
    },
  };
}

/** The longest domain that is shown. */
const maxDomain = 256;

function describe(call: TracedCall, request: RateLimitRequest, response: RateLimitResponse | undefined): void {
  call.attributes = {
    "gatewayproxy.ratelimit.domain": redactText(request.domain).slice(0, maxDomain),
    "gatewayproxy.ratelimit.descriptors": request.descriptors.length,
    "gatewayproxy.ratelimit.hits": request.hitsAddend,
    "gatewayproxy.ratelimit.code": response?.overallCode,
  };
}
