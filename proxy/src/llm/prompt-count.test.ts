import fc from "fast-check";
import { expect, test } from "vitest";
import { countPrompts } from "./prompt-count.ts";

function count(value: unknown, indent = 0): number {
  const text = Buffer.from(JSON.stringify(value, undefined, indent));
  return countPrompts(text, 0, text.length);
}

test.each([
  ["a text", 1],
  [[], 1],
  [["a"], 1],
  [["a", "b"], 2],
  [[1, 2, 3], 1],
  [
    [
      [1, 2],
      [3, 4],
      [5, 6],
    ],
    3,
  ],
  [[""], 1],
  [Array<string>(100_000).fill(""), 100_000],
])("%j", (prompt, expected) => {
  expect(count(prompt)).toBe(expected);
});

test("counts any texts, whatever they contain", () => {
  const text = fc.string({ unit: fc.constantFrom('"', "\\", ",", "[", "]", " ", "a") });
  fc.assert(
    fc.property(fc.array(text, { minLength: 1 }), fc.constantFrom(0, 2), (texts, indent) => {
      expect(count(texts, indent)).toBe(texts.length);
    }),
  );
});

test("does not read more than a number of texts and quotes, and counts at least as many as there are", () => {
  expect(count(Array<string>(200_000).fill("a"))).toBeGreaterThanOrEqual(200_000);
  expect(count(['"'.repeat(200_000), ...Array<string>(1_000).fill("")])).toBeGreaterThanOrEqual(1_001);
});
