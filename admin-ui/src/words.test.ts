import { expect, test } from "vitest";
import { counted, formatMs, formatRate, formatSeconds } from "./format.ts";
import { describeLimit, describeUnits } from "./parts/limit-words.ts";
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

test("formats figures", () => {
  expect([0, 1, 2_000].map((count) => counted(count, "policy", "policies"))).toEqual([
    "0 policies",
    "1 policy",
    "2,000 policies",
  ]);
  expect([0.42, 12.3, 3_140, 125_000].map(formatMs)).toEqual(["0.4 ms", "12 ms", "3.1 s", "2m 5s"]);
  expect([59.4, 59.6, 3_600, 3_780, 273_600].map(formatSeconds)).toEqual(["59s", "1m", "1h", "1h 3m", "3d 4h"]);
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
