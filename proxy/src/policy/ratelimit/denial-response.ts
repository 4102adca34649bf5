/** The response to a request that a limit denies: by a local counter, or by a rate limit service. */
import type { GlobalDenial, LocalDenial } from "./denial.ts";
import { denialHeaders } from "./global/service-headers.ts";
import { limitHeaders } from "./headers.ts";

/** A 429 (RFC 6585 §4) with the state of the limit, and when to retry. */
export interface DenialResponse {
  readonly status: 429;
  /** Names and values in turn, content type included. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer | string;
}

const defaultBody = "rate limit exceeded";

/**
 * Returns the response to a denial. Only a decision of a rate limit service has `x-envoy-ratelimited`; in-process
 * counters that decide in its place respond as a local limit does.
 *
 * @param nowMs monotonic; a cached denial shows the rest of the time until its reset.
 */
export function denialResponse(denial: LocalDenial | GlobalDenial, nowMs: number): DenialResponse {
  if (denial.kind === "local") return localResponse(denial);
  const { limit, cause } = denial;
  if ("kind" in cause) return localResponse(cause);
  const rawHeaders = denialHeaders(cause, nowMs, limit.envoyRatelimitedHeader === "Always");
  return { status: 429, rawHeaders, body: cause.response.rawBody ?? defaultBody };
}

function localResponse({ state, retryAfterSeconds }: LocalDenial): DenialResponse {
  const rawHeaders = limitHeaders(state);
  rawHeaders.push("retry-after", String(retryAfterSeconds), "content-type", "text/plain");
  return { status: 429, rawHeaders, body: defaultBody };
}
