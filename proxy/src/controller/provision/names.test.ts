import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { boundedName } from "./names.ts";

describe("boundedName()", () => {
  test("returns a valid name unchanged", () => {
    expect(boundedName("web-gateway-proxy")).toBe("web-gateway-proxy");
    expect(boundedName("a".repeat(63))).toBe("a".repeat(63));
  });

  test.each([
    ["is too long", "a".repeat(64), /^a{54}-[0-9a-f]{8}$/],
    ["has dots, as names of Gateways may", "web.example.com", /^web-example-com-[0-9a-f]{8}$/],
    ["begins with a digit, as names of Gateways may", "1st", /^g-1st-[0-9a-f]{8}$/],
    ["ends in a dash", "web-", /^web-[0-9a-f]{8}$/],
    ["would end in a dash where it is cut", `${"a".repeat(50)}----${"b".repeat(20)}`, /^a{50}-[0-9a-f]{8}$/],
  ])("returns a valid name for one that %s", (_, text, expected) => {
    expect(boundedName(text)).toMatch(expected);
  });

  test("returns a DNS label for any text, the same for the same text", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 300 }), (text) => {
        const name = boundedName(text);
        expect(name).toMatch(/^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/);
        expect(boundedName(text)).toBe(name);
      }),
      { examples: [["a-"], ["-"], ["1-"]] },
    );
  });

  test("returns different names for texts that differ only in what is cut or replaced", () => {
    const texts = ["web.a", "web-a", "web.a".padEnd(80, "x"), "web.a".padEnd(81, "x")];
    expect(new Set(texts.map((text) => boundedName(text))).size).toBe(texts.length);
  });
});
