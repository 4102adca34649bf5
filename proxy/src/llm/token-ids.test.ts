import { expect, test } from "vitest";
import { TokenIds } from "./token-ids.ts";

function estimated(text: string, size: number): number {
  const ids = new TokenIds();
  for (let at = 0; at < text.length; at += size) ids.push(Buffer.from(text.slice(at, at + size)));
  return (text.length + ids.missingBytes) / 4;
}

test.each([
  ["ids of one digit", JSON.stringify({ prompt: Array.from({ length: 100 }, () => 7) }), 100],
  ["ids of several lengths", JSON.stringify({ token_ids: Array.from({ length: 200 }, (_, id) => id) }), 200],
  ["arrays of ids", JSON.stringify({ input_ids: Array.from({ length: 50 }, () => [1, 2]) }), 100],
  ["arrays of one id", JSON.stringify({ input_ids: Array.from({ length: 50 }, (_, id) => [id % 10]) }), 50],
  ["ids with blanks", `[${"1 , ".repeat(50)}2]`, 51],
  ["ids on lines", `[\n${"1,\n".repeat(50)}2]`, 51],
  ["ids as texts", JSON.stringify(Array.from({ length: 50 }, () => "1")), 50],
  ["ids with fractions", `[${"1.0,".repeat(50)}1.0]`, 51],
])("%s cost a token each", (_what, text, tokens) => {
  for (const size of [1, 3, 1_000]) {
    expect(Math.ceil(estimated(text, size))).toBeGreaterThanOrEqual(tokens);
    expect(estimated(text, size)).toBe(estimated(text, text.length));
  }
});

test.each([
  ["a text", JSON.stringify({ messages: [{ role: "user", content: "In 1999, or 2,000 of them, a1, b2, [x]" }] })],
  ["an embedding", JSON.stringify([0.25, -0.5, 1e-7])],
  ["long ids", "[15043,29892,1]"],
  ["other members", '{"a":1,"b":2,"c":10}'],
])("%s costs its bytes only", (_what, text) => {
  expect(estimated(text, 1_000)).toBe(text.length / 4);
});
