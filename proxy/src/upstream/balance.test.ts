import { describe, expect, test } from "vitest";
import { type Candidate, pickEndpoint } from "./balance.ts";
import { EndpointHealth } from "./endpoint-health.ts";

const nowMs = 100_000;

function endpoint(inFlight: number, { score = 1, latencyMs = 0, notedMs = nowMs } = {}): Candidate {
  return { inFlight, health: Object.assign(new EndpointHealth(), { score, latencyMs, notedMs }) };
}

/** How often each of two endpoints is picked when every pair is drawn. */
function preferred(a: Candidate, b: Candidate): "a" | "b" | "either" {
  const picks = new Set([0, 0.5].map((draw) => pickEndpoint([a, b], () => draw, nowMs)));
  if (picks.size === 2) return "either";
  return picks.has(a) ? "a" : "b";
}

describe("of two endpoints", () => {
  test.each([
    ["the one with fewer calls in progress", endpoint(1), endpoint(2), "a"],
    ["any, where they are alike", endpoint(3), endpoint(3), "either"],
    ["the healthier one", endpoint(0, { score: 0.3 }), endpoint(0), "b"],
    ["a busy one before one that fails", endpoint(2), endpoint(0, { score: 0.2 }), "a"],
    ["the much faster one", endpoint(0, { latencyMs: 100 }), endpoint(0, { latencyMs: 10 }), "b"],
    ["any, where one is a little faster", endpoint(0, { latencyMs: 15 }), endpoint(0, { latencyMs: 10 }), "either"],
    ["the slower one once the faster is full", endpoint(1, { latencyMs: 30 }), endpoint(9, { latencyMs: 10 }), "a"],
    ["any, where one is not measured yet", endpoint(0), endpoint(0, { latencyMs: 50 }), "either"],
    [
      "any, where what is known of one is old",
      endpoint(0, { score: 0.1, latencyMs: 900, notedMs: nowMs - 10_000 }),
      endpoint(0, { latencyMs: 10 }),
      "either",
    ],
  ] as const)("picks %s", (_case, a, b, expected) => {
    expect(preferred(a, b)).toBe(expected);
  });
});

test("with one endpoint picks it, with none nothing", () => {
  const only = endpoint(7, { score: 0 });
  expect(pickEndpoint([only], () => 0, nowMs)).toBe(only);
  expect(pickEndpoint<Candidate>([], () => 0, nowMs)).toBeUndefined();
});

test("draws every endpoint of many", () => {
  const all = Array.from({ length: 5 }, () => endpoint(0));
  const picks = Array.from({ length: 100 }, (_, i) => pickEndpoint(all, () => (i * 0.37) % 1, nowMs));
  expect(new Set(picks).size).toBe(5);
});
