import { describe, expect, test } from "vitest";
import { declaredPart } from "./declared-part.ts";

const conditions = { type: "array", items: { type: "object", properties: { type: { type: "string" } } } };
const schema = { type: "object", properties: { conditions, listeners: { type: "array", items: {} } } };

describe("declaredPart()", () => {
  test("keeps declared fields, and names the others", () => {
    const value = {
      conditions: [{ type: "Accepted", hint: "b" }, { hint: "c" }],
      supportedFeatures: [{ name: "Gateway" }],
    };
    expect(declaredPart(schema, value)).toEqual({
      value: { conditions: [{ type: "Accepted" }, {}] },
      leftOut: new Set(["conditions[].hint", "supportedFeatures"]),
    });
  });

  test("leaves out a field whose type is another one", () => {
    // `supportedFeatures` was a list of strings in version 1.1 of the experimental channel.
    const older = { type: "object", properties: { supportedFeatures: { type: "array", items: { type: "string" } } } };
    expect(declaredPart(older, { supportedFeatures: [{ name: "Gateway" }] })).toEqual({
      value: {},
      leftOut: new Set(["supportedFeatures"]),
    });
    expect(declaredPart(older, { supportedFeatures: ["Gateway"] }).leftOut.size).toBe(0);
  });

  test("keeps every field where the schema allows it", () => {
    const value = { a: { b: 1 }, c: [2] };
    for (const open of [{ "x-kubernetes-preserve-unknown-fields": true }, { additionalProperties: true }]) {
      expect(declaredPart({ type: "object", ...open }, value)).toEqual({ value, leftOut: new Set() });
    }
    const ofNumbers = { type: "object", additionalProperties: { type: "integer" } };
    expect(declaredPart(ofNumbers, { a: 1, b: { c: 2 } })).toEqual({ value: { a: 1 }, leftOut: new Set(["b"]) });
  });
});
