/** Logs single calls at debug and trace level: the request, the limits that decided it, and their counters. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { redactText } from "@gatewayproxy/runtime/redaction";
import { shownEntryValue } from "../limiter/keys.ts";
import {
  type Descriptor,
  type DescriptorStatus,
  type RateLimitRequest,
  type RateLimitResponse,
  unlimitedRemaining,
} from "../model/rate-limit.ts";
import type { CurrentTrace } from "../tracing/current-trace.ts";
import type { RateLimitService } from "../service.ts";

/**
 * Wraps the service to log its calls. Returns the service itself when the log level excludes such lines, so that calls
 * cost nothing extra.
 *
 * @param current has the trace of the current call, for its lines.
 */
export function loggedService(
  service: RateLimitService,
  log: Logger,
  clock: Clock,
  current: Pick<CurrentTrace, "fields">,
): RateLimitService {
  if (!log.isLevelEnabled("debug")) return service;
  return {
    shouldRateLimit(request) {
      const startMs = clock.monotonicMs();
      const { fields: trace } = current;
      if (log.isLevelEnabled("trace")) logCall(log, request, trace);
      const failed = (error: unknown): never => {
        log.debug({ ...trace, ...callFields(request), err: error }, "call failed");
        throw error;
      };
      const succeeded = (response: RateLimitResponse): RateLimitResponse => {
        logResponse(log, request, response, { trace, durationMs: clock.monotonicMs() - startMs });
        return response;
      };
      try {
        const response = service.shouldRateLimit(request);
        return response instanceof Promise ? response.then(succeeded, failed) : succeeded(response);
      } catch (error) {
        return failed(error);
      }
    },
  };
}

/** Maximum number of descriptors of a call in one log line. */
const maxDescriptors = 20;

function callFields({ domain, hitsAddend, descriptors }: RateLimitRequest): object {
  return { domain: redactText(domain), hits: hitsAddend, descriptors: descriptors.length };
}

function logCall(log: Logger, { domain, hitsAddend, descriptors }: RateLimitRequest, trace: object): void {
  const shown = descriptors.slice(0, maxDescriptors).map(({ entries, hitsAddend: hits, isNegativeHits, limit }) => ({
    entries: shownEntries(entries),
    ...(hits !== undefined && { hits: isNegativeHits === true ? -hits : hits }),
    ...(limit !== undefined && { limit: `${limit.requestsPerUnit} per ${redactText(limit.unit)}` }),
  }));
  log.trace({ ...trace, domain: redactText(domain), hits: hitsAddend, descriptors: shown }, "call received");
}

function logResponse(
  log: Logger,
  request: RateLimitRequest,
  response: RateLimitResponse,
  { trace, durationMs }: { readonly trace: object; readonly durationMs: number },
): void {
  const { descriptors } = request;
  const { overallCode: code, statuses } = response;
  const limits = statuses.slice(0, maxDescriptors).map((status, index) => describeStatus(descriptors[index], status));
  const fields = { ...trace, ...callFields(request), code, limits, durationMs: Math.round(durationMs * 1_000) / 1_000 };
  log.debug(fields, code === "OVER_LIMIT" ? "limit denied" : "limit allowed");
  if (!log.isLevelEnabled("trace")) return;
  for (const [index, { currentLimit, limitRemaining }] of statuses.slice(0, maxDescriptors).entries()) {
    if (currentLimit === undefined) continue;
    const descriptor = descriptors[index];
    // `hits_addend` 0 means 1 in a request, and 0 in a descriptor.
    const hits = descriptor?.hitsAddend ?? Math.max(1, request.hitsAddend);
    const cost = descriptor?.isNegativeHits === true ? -hits : hits;
    const after = Math.max(0, currentLimit.requestsPerUnit - limitRemaining);
    const { requestsPerUnit: limit, unit } = currentLimit;
    log.trace(
      { ...trace, entries: shownEntries(descriptor?.entries ?? []), limit, unit, cost, after },
      "counter updated",
    );
  }
}

/**
 * Describes a status: `plan=free: OK, 7 of 10 per HOUR left, resets in 1200 s`, or `plan=free: OK, no limit` without a
 * match.
 */
function describeStatus(descriptor: Descriptor | undefined, status: DescriptorStatus): string {
  const { code, currentLimit, limitRemaining, durationUntilResetSeconds: seconds } = status;
  const entries = shownEntries(descriptor?.entries ?? []);
  if (currentLimit === undefined) {
    return `${entries}: ${code}, ${limitRemaining === unlimitedRemaining ? "unlimited" : "no limit"}`;
  }
  const { requestsPerUnit, unit, unitMultiplier } = currentLimit;
  const window = unitMultiplier === undefined ? unit : `${unitMultiplier} ${unit}`;
  const reset = seconds === undefined ? "" : `, resets in ${seconds} s`;
  return `${entries}: ${code}, ${limitRemaining} of ${requestsPerUnit} per ${window} left${reset}`;
}

function shownEntries(entries: Descriptor["entries"]): string {
  return entries.map((entry) => `${redactText(entry.key)}=${redactText(shownEntryValue(entry))}`).join(", ");
}
