/**
 * The response to a request that a local limit denies. It has no `x-envoy-ratelimited` header, which belongs to global
 * limits.
 */
import { limitHeaders } from "./headers.ts";
import type { Denied } from "./local-limiter.ts";

/** A 429 (RFC 6585 §4) with the state of the limit and `retry-after`. */
export interface DeniedResponse {
  readonly status: 429;
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/** Returns the 429 response: the state of the entry that denied, and when to retry. */
export function deniedResponse(denied: Denied): DeniedResponse {
  const rawHeaders = limitHeaders(denied.state);
  rawHeaders.push("retry-after", String(denied.retryAfterSeconds), "content-type", "text/plain");
  return { status: 429, rawHeaders, body: "rate limit exceeded" };
}
