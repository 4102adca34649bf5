/**
 * The `x-ratelimit-*` headers of a response: made from a limit's state, and taken out of an upstream's answer where
 * ours stand in their place. Others of the family, such as OpenAI's `x-ratelimit-remaining-tokens`, pass through.
 */
import type { LimitState } from "./window.ts";

/** Names and values in turn, as node's raw headers. */
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

/** Whether an upstream's header is replaced by `limitHeaders`; `name` in any case. */
export function isLimitHeader(name: string): boolean {
  // Their lengths first: few other headers get as far as a comparison.
  if (name.length === 17) {
    const lower = name.toLowerCase();
    return lower === "x-ratelimit-limit" || lower === "x-ratelimit-reset";
  }
  return name.length === 21 && name.toLowerCase() === "x-ratelimit-remaining";
}
