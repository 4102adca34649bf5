/**
 * The `x-ratelimit-*` headers of a response. They are made from a limit's state, and replace those of the upstream's
 * response. Other headers of the family, such as OpenAI's `x-ratelimit-remaining-tokens`, pass through.
 */
import type { LimitState } from "./window.ts";

/** Returns the headers of a limit's state, as alternating names and values like Node's raw headers. */
export function limitHeaders(state: LimitState): string[] {
  return [
    "x-ratelimit-limit",
    String(state.limit),
    "x-ratelimit-remaining",
    String(state.remaining),
    "x-ratelimit-reset",
    String(state.resetSeconds),
  ];
}

/** Returns whether `limitHeaders` replaces an upstream's header; `name` in any case. */
export function isLimitHeader(name: string): boolean {
  // Compares lengths first: few other headers reach the string comparison.
  if (name.length === 17) {
    const lower = name.toLowerCase();
    return lower === "x-ratelimit-limit" || lower === "x-ratelimit-reset";
  }
  return name.length === 21 && name.toLowerCase() === "x-ratelimit-remaining";
}
