import fc from "fast-check";
import { expect, test } from "vitest";
import { readQuota } from "./provider-quota.ts";

const nowMs = Date.parse("2026-03-01T12:00:00Z");
const read = (status: number, fields: Readonly<Record<string, string>>) =>
  readQuota(status, Object.entries(fields).flat(), nowMs);

test.each([
  ["seconds", "20", 20_000],
  ["a date (RFC 9110 §5.6.7)", "Sun, 01 Mar 2026 12:00:30 GMT", 30_000],
  ["a date in the past", "Sun, 01 Mar 2026 11:00:00 GMT", 0],
  ["seconds since the epoch", String(nowMs / 1_000 + 5), 5_000],
  ["milliseconds since the epoch", String(nowMs + 5), 5],
  ["a duration", "1m0.5s", 60_500],
  ["something else", "soon", undefined],
  ["an empty value", "", undefined],
  ["a negative number", "-3", 0],
])("retry-after may be %s", (_, value, resetMs) => {
  expect(read(429, { "retry-after": value })).toEqual({ isUsedUp: true, resetMs });
});

test.each([
  ["1s", 1_000],
  ["6m0s", 360_000],
  ["7.66s", 7_660],
  ["20ms", 20],
  ["1h2m3s", 3_723_000],
  ["2", 2_000],
])("the reset of a budget may be %s (OpenAI, Groq)", (value, resetMs) => {
  const fields = { "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": value };
  expect(read(200, fields)).toEqual({ isUsedUp: true, resetMs });
  expect(read(429, fields)).toEqual({ isUsedUp: true, resetMs });
});

test("of several budgets that are used up, the last reset counts", () => {
  const fields = {
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "5s",
    "x-ratelimit-remaining-tokens": "0",
    "x-ratelimit-reset-tokens": "9s",
  };
  expect(read(200, fields)).toEqual({ isUsedUp: true, resetMs: 9_000 });
});

test.each([
  ["has no budget fields", 200, {}],
  ["has budgets with a rest", 200, { "x-ratelimit-remaining": "1", "x-ratelimit-reset": "9" }],
  ["does not say when its used-up budget is reset", 200, { "x-ratelimit-remaining": "0" }],
  ["has a budget that is no number", 200, { "x-ratelimit-remaining": "none", "x-ratelimit-reset": "9" }],
  ["is a 429 with a rest in every budget, and no retry-after", 429, { "x-ratelimit-remaining-tokens": "5" }],
  ["is an error of another kind", 500, { "retry-after": "5" }],
])("a response is not out of quota if it %s", (_, status, fields) => {
  expect(read(status, fields).isUsedUp).toBe(false);
});

test("any fields give a time of at least 0, or none", () => {
  const name = fc.constantFrom(
    ...["retry-after", "retry-after-ms", "x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-remaining-tokens"],
    ...["x-ratelimit-reset-tokens", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"],
  );
  const value = fc.oneof(
    fc.string(),
    fc.integer().map(String),
    fc.constantFrom("0", "9".repeat(40), "1e9", "Infinity"),
  );
  fc.assert(
    fc.property(fc.integer({ min: 200, max: 599 }), fc.array(fc.tuple(name, value)), (status, fields) => {
      const { resetMs } = readQuota(status, fields.flat(), nowMs);
      expect(resetMs === undefined || (Number.isFinite(resetMs) && resetMs >= 0)).toBe(true);
    }),
  );
});
