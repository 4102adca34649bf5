/** Logs the calls to rate limit services in the log of a request. */
import { isSecretExpression, isSecretName, redactValue } from "@gatewayproxy/runtime/redaction";
import { overrideKeyOf, type RequestDescriptor } from "../policy/ratelimit/global/descriptors.ts";
import type { RateLimitResponse } from "../policy/ratelimit/global/messages.ts";
import type { CallWatcher } from "../policy/ratelimit/global/call-watcher.ts";
import type { RequestLogger } from "../telemetry/request-log.ts";

/** Returns the watcher of a request's calls. It logs results at debug, and calls at trace. */
export function callLines(log: RequestLogger): CallWatcher {
  return {
    callStarted({ service, policy, domain }, { method, call, descriptors: about }) {
      if (!log.isTracing) return undefined;
      log.trace(
        { service, policy, method, domain, descriptors: about.map(shownDescriptor), hits: call.hits },
        "rate limit service asked",
      );
      return undefined;
    },
    callEnded({ service, policy }, { method }, result, durationMs) {
      const about = { service, policy, method, durationMs: Math.round(durationMs * 1_000) / 1_000 };
      if (result.kind === "failed") {
        log.debug({ ...about, cause: result.cause, error: result.message }, "rate limit service failed");
        return;
      }
      const { overallCode, statuses } = result.response;
      log.debug({ ...about, code: overallCode, limits: statuses.map(shownStatus) }, "rate limit service responded");
    },
    laterCallStarted: () => undefined,
  };
}

/** `plan=free, user=sha256:1f3870be… ×2 of 10/Minute`. */
function shownDescriptor(descriptor: RequestDescriptor): string {
  const { compiled, entries, hits } = descriptor;
  const sources = compiled.descriptor.entries;
  const shown = entries.map(({ key, value }, at) => {
    const isSecret = isSecretName(key) || isSecretExpression(sources[at]?.expression ?? "");
    return `${key}=${redactValue(value, isSecret).text}`;
  });
  return `${shown.join(", ")}${hits === 1 ? "" : ` ×${hits}`}${overrideKeyOf(descriptor)}`;
}

/** Returns `OVER_LIMIT, 0 of 10 in 3600 s left, resets in 1200 ms`. */
function shownStatus({ code, limit, remaining, resetMs }: RateLimitResponse["statuses"][number]): string {
  if (limit === undefined) return `${code}, no limit`;
  const window = limit.windowSeconds === undefined ? "" : ` in ${limit.windowSeconds} s`;
  const reset = resetMs === undefined ? "" : `, resets in ${Math.round(resetMs)} ms`;
  return `${code}, ${remaining} of ${limit.requestsPerUnit}${window} left${reset}`;
}
