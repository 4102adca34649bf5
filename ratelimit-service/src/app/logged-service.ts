/** The log of single calls, at debug and trace: what was asked, by which limits it was decided, and their counters. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { shownText } from "@gatewayproxy/runtime/redaction";
import { shownEntryValue } from "../limiter/keys.ts";
import {
  type Descriptor,
  type DescriptorStatus,
  type RateLimitRequest,
  type RateLimitResponse,
  unlimitedRemaining,
} from "../limiter/rate-limit.ts";
import type { RateLimitService } from "../service.ts";

/** The service itself where no line of a call can be logged, so that calls cost nothing then. */
export function loggedService(service: RateLimitService, log: Logger, clock: Clock): RateLimitService {
  if (!log.isLevelEnabled("debug")) return service;
  return {
    shouldRateLimit(request) {
      const startMs = clock.monotonicMs();
      if (log.isLevelEnabled("trace")) logCall(log, request);
      const failed = (error: unknown): never => {
        log.debug({ ...aboutCall(request), err: error }, "call failed");
        throw error;
      };
      const answered = (answer: RateLimitResponse): RateLimitResponse => {
        logAnswer(log, request, answer, clock.monotonicMs() - startMs);
        return answer;
      };
      try {
        const answer = service.shouldRateLimit(request);
        return answer instanceof Promise ? answer.then(answered, failed) : answered(answer);
      } catch (error) {
        return failed(error);
      }
    },
  };
}

/** Descriptors of a call that one line tells. */
const maxDescriptors = 20;

function aboutCall({ domain, hitsAddend, descriptors }: RateLimitRequest): object {
  return { domain: shownText(domain), hits: hitsAddend, descriptors: descriptors.length };
}

function logCall(log: Logger, { domain, hitsAddend, descriptors }: RateLimitRequest): void {
  const asked = descriptors.slice(0, maxDescriptors).map(({ entries, hitsAddend: hits, isNegativeHits, limit }) => ({
    entries: shownEntries(entries),
    ...(hits !== undefined && { hits: isNegativeHits === true ? -hits : hits }),
    ...(limit !== undefined && { limit: `${limit.requestsPerUnit} per ${shownText(limit.unit)}` }),
  }));
  log.trace({ domain: shownText(domain), hits: hitsAddend, descriptors: asked }, "call received");
}

function logAnswer(log: Logger, request: RateLimitRequest, answer: RateLimitResponse, durationMs: number): void {
  const { descriptors } = request;
  const { overallCode: code, statuses } = answer;
  const limits = statuses.slice(0, maxDescriptors).map((status, at) => describeStatus(descriptors[at], status));
  const about = { ...aboutCall(request), code, limits, durationMs: Math.round(durationMs * 1_000) / 1_000 };
  log.debug(about, code === "OVER_LIMIT" ? "limit denied" : "limit allowed");
  if (!log.isLevelEnabled("trace")) return;
  for (const [at, { currentLimit, limitRemaining }] of statuses.slice(0, maxDescriptors).entries()) {
    if (currentLimit === undefined) continue;
    const descriptor = descriptors[at];
    // 0 counts as 1 in a call, and as nothing in a descriptor.
    const hits = descriptor?.hitsAddend ?? Math.max(1, request.hitsAddend);
    const cost = descriptor?.isNegativeHits === true ? -hits : hits;
    const after = Math.max(0, currentLimit.requestsPerUnit - limitRemaining);
    const { requestsPerUnit: limit, unit } = currentLimit;
    log.trace({ entries: shownEntries(descriptor?.entries ?? []), limit, unit, cost, after }, "counter counted");
  }
}

/** `plan=free: OK, 7 of 10 per HOUR left, resets in 1200 s`; `plan=free: OK, no limit` where none matches. */
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
  return entries.map((entry) => `${shownText(entry.key)}=${shownText(shownEntryValue(entry))}`).join(", ");
}
