import { expect, test } from "vitest";
import { dynamicMetadata } from "./dynamic-metadata.ts";

test("describes the call as received", () => {
  const entries = [
    { key: "k", value: "v" },
    { key: "empty", value: "" },
  ];
  const descriptors = [
    { entries, limit: { requestsPerUnit: 2, unit: "HOUR" }, hitsAddend: 0 },
    { entries: [], limit: { requestsPerUnit: 0, unit: "DAY", unitMultiplier: 3 } },
  ];
  expect(dynamicMetadata({ domain: "d", descriptors, hitsAddend: 7 }, [])).toEqual({
    domain: "d",
    descriptors: [
      { entries: ["k=v", "empty="], limit: "requests_per_unit:2 unit:HOUR", hitsAddend: 0 },
      { entries: [], limit: "unit:DAY unit_multiplier:{value:3}" },
    ],
    hitsAddend: 7,
  });
});

test("merges the metadata of what passed: the first value of a field counts, objects are merged in turn", () => {
  const passed = [
    { a: 1, deep: { x: 1, list: [1] } },
    { a: 2, b: 3, deep: { x: 2, y: { z: 1 }, list: [2] } },
  ];
  expect(dynamicMetadata({ domain: "d", descriptors: [], hitsAddend: 0 }, passed)).toEqual({
    domain: "d",
    descriptors: [],
    metadata: { a: 1, b: 3, deep: { x: 1, list: [1], y: { z: 1 } } },
  });
});
