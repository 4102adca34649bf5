import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { suggest, suggestName } from "./suggest.ts";

describe("suggest()", () => {
  test.each([
    ["a missing letter", "Minute", ["Seconds", "Minutes", "Hours"], "Minutes"],
    ["another case", "minutes", ["Seconds", "Minutes", "Hours"], "Minutes"],
    ["swapped neighbours", "burts", ["requests", "burst", "unit"], "burst"],
    ["a wrong letter", "ubit", ["requests", "burst", "unit"], "unit"],
    ["a letter too many", "hosstname", ["name", "hostname"], "hostname"],
    ["its beginning", "match", ["name", "matches"], "matches"],
    ["its end", "Prefix", ["Exact", "PathPrefix", "RegularExpression"], "PathPrefix"],
    ["one slip rather than its beginning", "nam", ["namespace", "name"], "name"],
    ["the nearer of two", "token", ["tokens", "take"], "tokens"],
    ["two slips in a long word", "backendRfes", ["backendRefs", "filters"], "backendRefs"],
    ["one slip in a word of two letters", "to", ["tx", "from"], "tx"],
  ])("finds the word meant by %s", (_, found, candidates, meant) => {
    expect(suggest(found, candidates)).toBe(meant);
  });

  test.each([
    ["another word", "Days", ["Seconds", "Minutes", "Hours"]],
    ["two slips in a short word", "abc", ["xyc"]],
    ["no candidates", "abc", []],
    ["prose", "a".repeat(65), ["a".repeat(64)]],
  ])("suggests nothing for %s", (_, found, candidates) => {
    expect(suggest(found, candidates)).toBeUndefined();
  });

  test("finds any word by itself, and a word of three letters or more with one typing error", () => {
    const word = fc.stringMatching(/^[a-z]{3,12}$/);
    fc.assert(
      fc.property(word, fc.nat(11), fc.constantFrom("", "x", "yz"), (meant, at, slip) => {
        const found = meant.slice(0, at) + slip + meant.slice(at + 1);
        const suggestion = suggest(found, [meant]);
        if (found.length >= 6) expect(suggestion).toBe(meant);
        expect(suggest(meant, ["completely-different", meant])).toBe(meant);
      }),
    );
  });
});

describe("suggestName()", () => {
  test.each([
    ["swapped neighbours", "default/chta", "default/chat"],
    ["a missing letter", "default/quickstar", "default/quickstart"],
    ["a letter too many", "default/chatt", "default/chat"],
    ["a wrong letter", "default/chab", "default/chat"],
  ])("suggests a name for %s", (_, found, meant) => {
    expect(suggestName(found, ["default/other", meant])).toBe(` (did you mean ${meant}?)`);
  });

  test.each([
    ["the same name", "default/chat", "default/chat"],
    ["two slips", "default/chat", "default/xhax"],
    ["the name of another namespace", "team-a/chat", "team-b/chat"],
  ])("suggests no name for %s", (_, found, name) => {
    expect(suggestName(found, [name])).toBe("");
  });

  test("looks at a bounded number of names", () => {
    let looked = 0;
    function* names() {
      for (;;) {
        looked++;
        yield "default/another-name";
      }
    }
    expect(suggestName("default/chat", names())).toBe("");
    expect(looked).toBeLessThan(1_100);
  });
});
