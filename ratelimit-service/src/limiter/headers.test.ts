import { describe, expect, test } from "vitest";
import { headerPolicy } from "../config/header-policy.ts";
import { type HeaderSubject, responseHeaders } from "./headers.ts";
import type { CurrentLimit } from "../model/rate-limit.ts";

function subject(
  limit: CurrentLimit,
  remaining: number,
  reset: number,
  isOver = false,
  isQuota = false,
): HeaderSubject {
  const code = isOver ? "OVER_LIMIT" : "OK";
  return {
    status: { code, currentLimit: limit, limitRemaining: remaining, durationUntilResetSeconds: reset },
    headerPolicy: headerPolicy(limit),
    isQuota,
  };
}

const perMinute: CurrentLimit = { requestsPerUnit: 10, unit: "MINUTE" };
const perHour: CurrentLimit = { requestsPerUnit: 500, unit: "HOUR", name: "per-team" };

function rendered(style: "envoy" | "ratelimit" | "off", subjects: readonly HeaderSubject[], isOver = false) {
  const named = { kind: style, limit: "L", remaining: "R", reset: "S" } as const;
  return responseHeaders(named, subjects, isOver).map(({ key, value }) => `${key}: ${value}`);
}

describe("headers in Envoy's form", () => {
  test("show the limit with the least left, then every limit of the call", () => {
    expect(rendered("envoy", [subject(perMinute, 9, 58), subject(perHour, 3, 1_000)])).toEqual([
      'x-ratelimit-limit: 500, 10;w=60, 500;w=3600;name="per-team"',
      "x-ratelimit-remaining: 3",
      "x-ratelimit-reset: 1000",
    ]);
  });

  test("show the first of equals", () => {
    expect(rendered("envoy", [subject(perMinute, 3, 58), subject(perHour, 3, 1_000)])[2]).toBe("x-ratelimit-reset: 58");
  });

  test("show on a rejection the refusing limit that takes longest, not one that merely has nothing left", () => {
    const subjects = [subject(perMinute, 0, 58), subject(perMinute, 0, 30, true), subject(perHour, 0, 40, true)];
    expect(rendered("envoy", subjects, true)).toEqual([
      "x-envoy-ratelimited: true",
      'x-ratelimit-limit: 500, 10;w=60, 10;w=60, 500;w=3600;name="per-team"',
      "x-ratelimit-remaining: 0",
      "x-ratelimit-reset: 40",
    ]);
  });

  test("tell longer windows in seconds", () => {
    const limit: CurrentLimit = { requestsPerUnit: 1, unit: "SECOND", unitMultiplier: 30 };
    expect(rendered("envoy", [subject(limit, 0, 5)])[0]).toBe("x-ratelimit-limit: 1, 1;w=30");
  });

  test("escape what a name may hold, so that no name ends the header", () => {
    const limit: CurrentLimit = { requestsPerUnit: 1, unit: "DAY", name: 'a"b\\c\r\nd' };
    expect(rendered("envoy", [subject(limit, 0, 5)])[0]).toBe(
      String.raw`x-ratelimit-limit: 1, 1;w=86400;name="a\"b\\c??d"`,
    );
  });

  test("are none where nothing limits", () => {
    expect(rendered("envoy", [])).toEqual([]);
  });
});

describe("the reference's headers", () => {
  test("show the last limit that is over, before one with less left", () => {
    const subjects = [subject(perMinute, 0, 58, true), subject(perHour, 0, 40, true), subject(perMinute, 0, 10)];
    expect(rendered("ratelimit", subjects, true)).toEqual(["L: 500", "R: 0", "S: 40"]);
  });

  test("do not use a quota in place of a limit", () => {
    const subjects = [subject(perMinute, 0, 58, true), subject(perHour, 0, 40, true, true)];
    expect(rendered("ratelimit", subjects, true)).toEqual(["L: 10", "R: 0", "S: 58"]);
  });
});

test("switched off, there are none", () => {
  expect(rendered("off", [subject(perMinute, 0, 58, true)], true)).toEqual([]);
});
