import fc from "fast-check";
import { expect, test } from "vitest";
import { expressionEnd } from "./expression-end.ts";

test.each([
  ["a } b", "a "],
  ["{'}': 1}['}']} b", "{'}': 1}['}']"],
  ['"\\"}" } b', '"\\"}" '],
  ['r"\\" } b', 'r"\\" '],
  ['"""a"}""" } b', '"""a"}""" '],
  ["a // }\n } b", "a // }\n "],
  ["[f(a, {b: c})] }", "[f(a, {b: c})] "],
])("in %j it is after %j", (text, expression) => {
  expect(text.slice(0, expressionEnd(text, 0, "}"))).toBe(expression);
});

test.each(["a", '"}', "{}", "r'}", "// }", ""])("%j has none", (text) => {
  expect(expressionEnd(text, 0, "}")).toBe(text.length);
});

test("is after any literal, whatever the literal contains", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii" }), fc.constantFrom('"', "'"), (content, quote) => {
      const escaped = content.replaceAll(/["'\\]/g, (character) => `\\${character}`);
      const literal = `f(${quote}${escaped}${quote}) + 1`;
      expect(expressionEnd(`${literal}} "`, 0, "}")).toBe(literal.length);
    }),
  );
});
