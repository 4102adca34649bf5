import { expect, test } from "vitest";
import { backendHeaders, denialHeaders, viewOfAllowed } from "./service-headers.ts";
import type { DescriptorStatus, RateLimitResponse } from "./messages.ts";

const limit = { requestsPerUnit: 10, windowSeconds: 60, name: "n".repeat(20) };
const status: DescriptorStatus = { code: "OVER_LIMIT", limit, remaining: 0, resetMs: 1_000 };
const headers = Array.from({ length: 10_000 }, (_, i) => ({ name: `x-${i}`, value: "v".repeat(200) }));
const response: RateLimitResponse = {
  overallCode: "OVER_LIMIT",
  statuses: Array.from({ length: 10_000 }, () => status),
  responseHeaders: [],
  requestHeaders: headers,
  rawBody: undefined,
};

const characters = (fields: readonly string[]): number => fields.join("").length;

test("x-ratelimit-limit has the limit in question first, and at most 1,024 characters", () => {
  for (const fields of [viewOfAllowed(response).limitHeaders, denialHeaders({ response, atMs: 0 }, 0, false)]) {
    const shown = fields[fields.indexOf("x-ratelimit-limit") + 1] ?? "";
    expect(shown).toMatch(/^10, 10;w=60;name="n+"(?:, 10;w=60;name="n+")+$/);
    expect(shown.length).toBeLessThanOrEqual(1_024);
  }
});

test("the fields that a service adds have at most 8 KiB, and one that does not fit does not keep out a later one", () => {
  const huge = { name: "x-huge", value: "v".repeat(8 * 1_024) };
  const responseHeaders = [huge, ...headers, { name: "x-ratelimit-limit", value: "9".repeat(10_000) }];
  const { limitHeaders, otherHeaders } = viewOfAllowed({ ...response, statuses: [], responseHeaders });
  expect(limitHeaders).toEqual([]);
  for (const fields of [otherHeaders, backendHeaders(response)]) {
    expect(fields[0]).toBe("x-0");
    expect(characters(fields)).toBeGreaterThan(8_000);
    expect(characters(fields)).toBeLessThanOrEqual(8 * 1_024);
  }
});
