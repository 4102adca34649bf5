import { describe, expect, test } from "vitest";
import { isLimitHeader, limitHeaders } from "./headers.ts";

describe("rate limit headers", () => {
  test("are limit, remaining and reset, as node's raw headers", () => {
    expect(limitHeaders({ limit: 15, remaining: 0, resetSeconds: 60 })).toEqual([
      "x-ratelimit-limit",
      "15",
      "x-ratelimit-remaining",
      "0",
      "x-ratelimit-reset",
      "60",
    ]);
  });

  test.each(["x-ratelimit-limit", "X-RateLimit-Remaining", "X-RATELIMIT-RESET"])(
    "replace an upstream's own %s",
    (name) => {
      expect(isLimitHeader(name)).toBe(true);
    },
  );

  test.each([
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
    "x-envoy-ratelimited",
    "retry-after",
    "x-ratelimit-other",
    "x-ratelimit-something",
    "",
  ])("let an upstream's %s pass", (name) => {
    expect(isLimitHeader(name)).toBe(false);
  });
});
