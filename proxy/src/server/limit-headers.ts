/** Puts the state of the limits on an answer, in place of what the backend says of limits of its own. */
import { isLimitHeader, limitHeaders } from "../policy/ratelimit/headers.ts";
import type { Allowed } from "../policy/ratelimit/local-limiter.ts";

/** Edits `headers` (flat) in place; does nothing when no entry is enforced. */
export function setLimitHeaders(headers: string[], { state }: Allowed): void {
  if (state === undefined) return;
  for (let i = headers.length - 2; i >= 0; i -= 2) if (isLimitHeader(headers[i] ?? "")) headers.splice(i, 2);
  headers.push(...limitHeaders(state));
}
