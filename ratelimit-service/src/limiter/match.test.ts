import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ConfigSet } from "../config/config-set.ts";
import type { RateLimitConfig } from "../config/rule.ts";
import { findRule, matchesWildcard } from "./match.ts";

/** A regular expression says the same in another way. */
function matchesByExpression(pattern: string, text: string): boolean {
  const source = pattern.split("*").map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${source.join(".*")}$`, "s").test(text);
}

describe("a wildcard", () => {
  test.each([
    ["foo*", "foo", true],
    ["foo*", "fo", false],
    ["*", "", true],
    ["*bar", "bar", true],
    ["a*a", "a", false],
    ["a*a", "aa", true],
    ["a**b", "ab", true],
    ["a*bc*c", "abcc", true],
    ["a*bc*c", "abc", false],
    ["a*b", "a.b\n.b", true],
    ["a.c*", "abc", false],
  ])("%s against %j: %s", (pattern, text, isMatch) => {
    expect(matchesWildcard(pattern.split("*"), text)).toBe(isMatch);
  });

  test("takes what the same pattern takes as a regular expression", () => {
    const textOf = (...letters: readonly string[]) => fc.string({ unit: fc.constantFrom(...letters), maxLength: 12 });
    fc.assert(
      fc.property(textOf("a", "b", "*"), textOf("a", "b"), (pattern, text) => {
        fc.pre(pattern.includes("*"));
        expect(matchesWildcard(pattern.split("*"), text)).toBe(matchesByExpression(pattern, text));
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("the rule of a descriptor", () => {
  function configOf(descriptors: string): RateLimitConfig {
    const text = `domain: d\ndescriptors:\n${descriptors}`;
    const { config, problems } = new ConfigSet(false).update([{ key: "f", file: "f", text }]);
    expect(problems).toEqual([]);
    return config ?? { domains: new Map() };
  }

  function pathOf(config: RateLimitConfig, ...entries: readonly (readonly [string, string])[]): string | undefined {
    const domain = config.domains.get("d");
    if (domain === undefined) return undefined;
    return findRule(
      domain,
      entries.map(([key, value]) => ({ key, value })),
    )?.path;
  }

  const limit = "rate_limit: {unit: day, requests_per_unit: 1}";

  test("is that of the first wildcard of the file, not of the longest", () => {
    const config = configOf(`- {key: k, value: "a*", ${limit}}\n- {key: k, value: "abc*", ${limit}}\n`);
    expect(pathOf(config, ["k", "abcd"])).toBe("d.k_a*");
  });

  test("does not go back to a less exact branch", () => {
    const config = configOf(`- key: k\n  value: v\n- key: k\n  descriptors:\n  - {key: sub, ${limit}}\n`);
    expect(pathOf(config, ["k", "v"], ["sub", "x"])).toBeUndefined();
    expect(pathOf(config, ["k", "other"], ["sub", "x"])).toBe("d.k.sub");
  });

  test("with an empty value is looked for as key_ first, then as the key", () => {
    const config = configOf(`- {key: k, ${limit}}\n- {key: "k_", ${limit}}\n- {key: j, ${limit}}\n`);
    expect(pathOf(config, ["k", ""])).toBe("d.k_");
    expect(pathOf(config, ["j", ""])).toBe("d.j");
  });

  test("may be found by a wildcard in a key", () => {
    const config = configOf(`- {key: "user*", ${limit}}\n`);
    expect(pathOf(config, ["user_name", "x"])).toBe("d.user*");
  });
});
