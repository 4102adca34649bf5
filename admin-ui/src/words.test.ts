import { expect, test } from "vitest";
import { counted, formatBytes, formatMs, formatRate, formatSeconds } from "./format.ts";
import { describeDescriptorTerms, describeLimit, describeTerms, describeUnits } from "./parts/limit-words.ts";
import { describeResponses } from "./parts/response-words.ts";

test("describes limits in requests or tokens, singular or plural, with their burst", () => {
  const limit = { counts: "requests", amount: 10, burst: 5, unit: "Minutes" } as const;
  expect(describeLimit(limit)).toBe("10 requests per minute, burst 5");
  expect(describeLimit({ ...limit, amount: 1, burst: 0, unit: "Seconds" })).toBe("1 request per second");
  expect(describeLimit({ ...limit, counts: "tokens", amount: 1_000, burst: 0, unit: "Hours" })).toBe(
    "1,000 tokens per hour",
  );
  expect(describeUnits(1, "tokens")).toBe("1 token");
});

test("describes windows of several units, limits by expression, and what else decides", () => {
  const limit = { counts: "requests", amount: 1_000, burst: 0, unit: "Weeks", every: 2 } as const;
  expect(describeLimit(limit)).toBe("1,000 requests per 2 weeks");
  expect(describeLimit({ ...limit, every: 1, amountFrom: "int(jwt.n)" })).toBe("1,000 requests per week or int(jwt.n)");
  expect(describeTerms({})).toEqual([]);
  expect(describeTerms({ bucket: "team-a", replicas: 3, when: "a", cost: "2" })).toEqual([
    "in the bucket team-a",
    "a share of 3 replicas",
    "at a cost of 2",
    "when a",
  ]);
  expect(describeTerms({ window: "Sliding" })).toEqual(["in a sliding window"]);
  expect(describeTerms({ window: "Calendar", timeZone: "Europe/Berlin" })).toEqual([
    "by the calendar of Europe/Berlin",
  ]);
  expect(describeTerms({ replicas: true })).toEqual(["for all replicas together"]);
});

test("describes the condition and the override of a descriptor", () => {
  const descriptor = { index: 0, counts: "requests", entries: [] } as const;
  expect(describeDescriptorTerms(descriptor)).toEqual([]);
  const limitOverride = { requestsPerUnit: 60, requestsPerUnitFrom: "int(jwt.rpm)", unit: "Minute" };
  expect(describeDescriptorTerms({ ...descriptor, limitOverride, when: 'jwt.tier != "a"' })).toEqual([
    "limited to int(jwt.rpm) or 60 per minute",
    'when jwt.tier != "a"',
  ]);
});

test("formats figures", () => {
  expect([0, 1, 2_000].map((count) => counted(count, "policy", "policies"))).toEqual([
    "0 policies",
    "1 policy",
    "2,000 policies",
  ]);
  expect([0.42, 12.3, 3_140, 125_000].map(formatMs)).toEqual(["0.4 ms", "12 ms", "3.1 s", "2m 5s"]);
  expect([59.4, 59.6, 3_600, 3_780, 273_600].map(formatSeconds)).toEqual(["59s", "1m", "1h", "1h 3m", "3d 4h"]);
  expect([0, 999, 1_000, 70_437_112, 2_100_000_000].map(formatBytes)).toEqual([
    "0 bytes",
    "999 bytes",
    "1.0 kB",
    "70.4 MB",
    "2.1 GB",
  ]);
  expect([0, 0.25, 9.96, 1_234.5].map(formatRate)).toEqual(["0", "0.3", "10", "1,235"]);
});

test("the responses of a policy are described unless they are the defaults", () => {
  const denied = { format: "Text", status: 429, headers: [] } as const;
  expect(describeResponses({ headers: ["XRateLimit"], denied })).toEqual([]);
  expect(
    describeResponses({
      headers: ["Ietf", "OpenAI"],
      denied: { format: "Provider", status: 503, headers: [{ name: "x-plan", value: "free" }] },
    }),
  ).toEqual([
    "Denied requests get the error of the provider's API with status 503 and x-plan.",
    "Response headers show its limits: Ietf, OpenAI.",
  ]);
  expect(describeResponses({ headers: [], denied: { ...denied, body: "wait" } })).toEqual([
    "Denied requests get a text with status 429.",
    "No response headers show its limits.",
  ]);
});
