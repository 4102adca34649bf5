/** The answer to a request that a local limit refuses. It never says `x-envoy-ratelimited`: that is a global limit's. */
import { limitHeaders } from "./headers.ts";
import type { Denied } from "./local-limiter.ts";

export interface DeniedResponse {
  readonly status: 429;
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

/** Makes the answer: the state of the entry that denied, and when to come back. */
export function deniedResponse(denied: Denied): DeniedResponse {
  const rawHeaders = limitHeaders(denied.state);
  rawHeaders.push("retry-after", String(denied.retryAfterSeconds), "content-type", "text/plain");
  return { status: 429, rawHeaders, body: "rate limit exceeded" };
}
