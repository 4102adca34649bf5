/** The facts of the response to a request that a limit denies: by a local counter, or by a rate limit service. */
import type { LimitResponses } from "../../ir/limit-response.ts";
import { isChargedLater } from "../../ir/limit.ts";
import type { GlobalDenial, LocalDenial, NamedLimits } from "./denial.ts";
import { denialHeaders, type ServiceDenial } from "./global/service-headers.ts";
import { limitHeaders } from "./headers.ts";
import { isNamed, listsLimits, overLimitNames, sendsFamily, shownStatuses } from "./shown-limit.ts";

/** The response to a denial in plain text, and what responses in other formats need. */
export interface DenialResponse {
  /** What the policy of the denial shows. */
  readonly responses: LimitResponses;
  /** Names and values in turn, content type included. */
  readonly rawHeaders: readonly string[];
  /** The text of the gateway, or the body of the service. */
  readonly body: Buffer | string;
  /** What the denying limit counts; "requests" for requests in progress, "tokens" for spend. */
  readonly counts: "requests" | "tokens";
  /** Undefined if the response names no limit. */
  readonly named: NamedLimits | undefined;
}

/** The text of a response where neither the policy nor a service has another. */
export const defaultDenialText = "rate limit exceeded";

/**
 * Returns the facts of a denial. Only a decision of a rate limit service has `x-envoy-ratelimited`; in-process counters
 * that decide in its place respond as a local limit does.
 *
 * @param nowMs monotonic; a cached denial shows the rest of the time until its reset.
 */
export function denialResponse(denial: LocalDenial | GlobalDenial, nowMs: number): DenialResponse {
  if (denial.kind === "local") return localResponse(denial);
  const { cause } = denial;
  return "kind" in cause ? localResponse(cause) : serviceResponse(denial, cause, nowMs);
}

function localResponse({ limit, state, retryAfterSeconds, named }: LocalDenial): DenialResponse {
  const rawHeaders = sendsFamily(limit, "XRateLimit") ? limitHeaders(state) : [];
  rawHeaders.push("retry-after", String(retryAfterSeconds), "content-type", "text/plain");
  return {
    responses: limit,
    rawHeaders,
    body: defaultDenialText,
    counts: isChargedLater(limit.counts) ? "tokens" : "requests",
    named,
  };
}

function serviceResponse({ limit }: GlobalDenial, cause: ServiceDenial, nowMs: number): DenialResponse {
  const isMarked = limit.envoyRatelimitedHeader === "Always";
  const { response, descriptors } = cause;
  const over = response.statuses.findIndex(({ code }) => code === "OVER_LIMIT");
  return {
    responses: limit,
    rawHeaders: denialHeaders(cause, nowMs, isMarked, sendsFamily(limit, "XRateLimit")),
    body: response.rawBody ?? defaultDenialText,
    counts: descriptors[over]?.counts ?? "requests",
    named: isNamed(limit) ? namedByService(limit, cause, nowMs) : undefined,
  };
}

function namedByService(
  limit: GlobalDenial["limit"],
  { response: { statuses }, descriptors, atMs }: ServiceDenial,
  nowMs: number,
): NamedLimits {
  const listed = listsLimits(limit) ? shownStatuses(limit, descriptors, statuses, nowMs - atMs) : [];
  const exhausted = overLimitNames(limit, descriptors, statuses);
  return { exhausted, listed, denying: listed.find(({ name }) => name === exhausted[0]) };
}
