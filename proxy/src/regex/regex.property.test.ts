import fc from "fast-check";
import { RE2JS } from "re2js";
import { describe, expect, test } from "vitest";
import { Automaton } from "./automaton.ts";
import { maxPatternSize, patternError, patternFor } from "./pattern.ts";
import { patternSize } from "./pattern-size.ts";
import { compileProgram, syntaxError } from "./program.ts";
import { BudgetExceeded, WorkBudget } from "./work-budget.ts";

const atom = fc.constantFrom(
  ..."abcé/-.^$]}{☃".split(""),
  ..."\\d \\w \\b \\B \\A \\z \\s \\pL \\p{Greek} \\P{L} \\x61 \\x{1F600} \\141 \\. \\Qa.b\\E".split(" "),
  ..."[a-c] [^a] []a] [^]a] [[:alpha:]_] [\\d-] [a\\]] [\\x{61}-\\x{7a}é] (?i) (?s) (?m)".split(" "),
  "\n",
  "",
);
const { pattern } = fc.letrec<{ pattern: string }>((tie) => ({
  pattern: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    atom,
    fc.array(tie("pattern"), { maxLength: 4 }).map((parts) => parts.join("")),
    fc.array(tie("pattern"), { minLength: 2, maxLength: 3 }).map((parts) => parts.join("|")),
    fc.tuple(fc.constantFrom("(", "(?:", "(?i:", "(?P<n>", "(?<m>"), tie("pattern")).map(([open, p]) => `${open}${p})`),
    fc
      .tuple(tie("pattern"), fc.constantFrom("*", "+", "?", "*?", "{2}", "{0}", "{1,3}", "{2,}", "{,2}", "{0,4}?"))
      .map(([p, times]) => `(?:${p})${times}`),
    fc.tuple(atom, fc.constantFrom("*", "+", "??", "{3}", "{0,2}")).map(([p, times]) => p + times),
  ),
}));
const text = fc.string({ unit: fc.constantFrom(..."abcdAé/-._1 σΣ☃😀\n".split("")), maxLength: 12 });

const plenty = () => new WorkBudget(10_000_000);

test("an automaton gives the same results as RE2", () => {
  fc.assert(
    fc.property(pattern, fc.array(text, { minLength: 1, maxLength: 6 }), (source, texts) => {
      fc.pre(patternError(source) === undefined);
      const reference = RE2JS.compile(source);
      // With one cell, states are discarded all the time.
      const smallest = new Automaton(compileProgram(source), "whole", 1);
      for (const each of texts) {
        expect(patternFor(source, "whole").test(each, plenty()), each).toBe(reference.testExact(each));
        expect(patternFor(source, "part").test(each, plenty()), each).toBe(reference.test(each));
        expect(smallest.test(each, plenty()), each).toBe(reference.testExact(each));
      }
    }),
    { numRuns: 2_000 },
  );
});

test("a pattern never compiles to more instructions than its size", () => {
  fc.assert(
    fc.property(pattern, (source) => {
      fc.pre(syntaxError(source) === undefined);
      const { length } = compileProgram(source).instructions;
      expect(patternSize(source)).toBeGreaterThanOrEqual(length);
    }),
    { numRuns: 2_000 },
  );
});

test("the size of any text is a number", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(..."\\Q({[<:?P^]xp)}>-19,E".split("")), maxLength: 60 }),
      (source) => {
        expect(Number.isInteger(patternSize(source))).toBe(true);
      },
    ),
    { numRuns: 2_000 },
  );
});

describe("patterns that are rejected before they are compiled", () => {
  test.each([
    ["x{1000}".repeat(140)],
    ["(x{1000}){1000}"],
    ["((((a?){10}){10}){10}){10}"],
    ["/(?:.{0,200}q){4}z"],
    ["(?i)[a-\\x{ffff}]".repeat(2)],
    ["\\pL".repeat(40)],
    [`[${"\\x{100}\\x{102}".repeat(80)}]{900}`],
    ["a".repeat(1_001)],
    ["(".repeat(4_000)],
  ])("%s", (source) => {
    expect(patternError(source)).toMatch(/size of \d+, accepted is at most 1000/);
    expect(() => patternFor(source, "whole").test("a", plenty())).toThrow(/size of/);
  });
});

test.each([
  ["/api/v[0-9]+/users/[^/]+/(?:posts|likes)(?:/.*)?"],
  ["[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"],
  ["(?i)(?:^|.*;\\s*)canary=always(?:;.*|$)"],
  ["[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?){0,4}"],
  ["[\\pL\\pN]{1,64}"],
  [Array.from({ length: 60 }, (_, at) => `tenant-${at}`).join("|")],
])("a pattern that people write is accepted: %s", (source) => {
  expect(patternError(source)).toBeUndefined();
  expect(patternSize(source)).toBeLessThanOrEqual(maxPatternSize);
});

describe("a text for which a pattern needs many states", () => {
  const costly = patternFor("(?:[ab]*a[ab]{200}){2}", "whole");
  const random = Array.from({ length: 64 * 1024 }, (_, at) => (((at * 2_654_435_761) >>> 13) & 1 ? "a" : "b")).join("");

  test("costs no more than the budget", () => {
    expect(() => costly.test(random, new WorkBudget(100_000))).toThrow(BudgetExceeded);
  });

  test("stops soon after the budget is used up, also if all states are known", () => {
    const simple = patternFor("a*b", "part");
    const long = "a".repeat(60_000);
    simple.test(long, plenty());
    const budget = new WorkBudget(2_000);
    expect(() => simple.test(long, budget)).toThrow(BudgetExceeded);
    expect(budget.left).toBeGreaterThan(-1_100);
  });

  test("leaves the pattern usable for other texts", () => {
    expect(costly.test("a".repeat(402), plenty())).toBe(true);
    expect(costly.test("a".repeat(401), plenty())).toBe(false);
  });
});
