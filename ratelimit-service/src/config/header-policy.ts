/** Renders limits for an `x-ratelimit-limit` header. The text of a rule is made once, when it is loaded. */
import type { CurrentLimit } from "../model/rate-limit.ts";
import { windowSeconds } from "../model/unit.ts";

/**
 * Renders a limit's part of an `x-ratelimit-limit` header in Envoy's form: `, 10;w=60;name="per-user"`.
 * @param window length of the window in seconds; of the calendar, that of the current one
 */
export function headerPolicy(
  limit: CurrentLimit,
  window = windowSeconds(limit.unit, limit.unitMultiplier ?? 1),
): string {
  const name = limit.name === undefined ? "" : `;name="${headerText(limit.name)}"`;
  return `, ${limit.requestsPerUnit};w=${window}${name}`;
}

/**
 * Renders the content of a quoted string (RFC 9651, section 3.3.3): printable ASCII, with quote and backslash escaped.
 */
function headerText(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/g, "?").replaceAll(/["\\]/g, "\\$&");
}
