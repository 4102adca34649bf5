import { describe, expect, test } from "vitest";
import { samplerOf } from "./sampling.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const unsampledId = "4bf92f3577b34da6a30e929d0e0e4736";
const sampledParent = { traceId, spanId: "00f067aa0ba902b7", isSampled: true };
const unsampledParent = { ...sampledParent, isSampled: false };
const deferringParent = { ...sampledParent, isSampled: undefined };

describe("a parent-based sampler", () => {
  const sample = samplerOf({ isParentBased: true, ratio: 0.5 }, false, () => 0.9);

  test("follows the caller", () => {
    expect(samplerOf({ isParentBased: true, ratio: 0 }, false, () => 0)(traceId, sampledParent)).toBe(true);
    expect(sample(traceId, unsampledParent)).toBe(false);
  });

  test("decides by the trace id where the caller leaves the decision to it, and where there is none", () => {
    expect(sample(traceId, deferringParent)).toBe(true);
    expect(sample(traceId, undefined)).toBe(true);
    expect(sample(unsampledId, deferringParent)).toBe(false);
  });
});

describe("a sampler that ignores callers", () => {
  const withRandom = (random: number) => samplerOf({ isParentBased: true, ratio: 0.5 }, true, () => random);

  test("follows neither the flag nor the trace id of a caller, which both are the caller's choice", () => {
    expect(withRandom(0.9)(traceId, sampledParent)).toBe(false);
    expect(withRandom(0.1)(traceId, unsampledParent)).toBe(true);
  });

  test("decides by the trace id for traces that begin here", () => {
    expect(withRandom(0.9)(traceId, undefined)).toBe(true);
  });
});

test.each([
  [0.25, "bfffffff", false],
  [0.25, "c0000000", true],
  [0.01, "fd70a3d7", false],
  [0.01, "fd70a3d8", true],
])(
  "a ratio of %d and a trace id that ends with %s…: %s, as the specification of probability sampling has it",
  (ratio, random, isSampled) => {
    const id = `${"0".repeat(18)}${random}${"0".repeat(6)}`;
    expect(samplerOf({ isParentBased: false, ratio }, false, () => 0)(id, undefined)).toBe(isSampled);
  },
);

test("other samplers decide without the parent", () => {
  expect(samplerOf({ isParentBased: false, ratio: 0 }, false, () => 0)(traceId, sampledParent)).toBe(false);
  expect(samplerOf({ isParentBased: false, ratio: 1 }, false, () => 0)(traceId, unsampledParent)).toBe(true);
});
