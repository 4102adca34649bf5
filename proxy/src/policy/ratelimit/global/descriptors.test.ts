import { describe, expect, test } from "vitest";
import { compileDescriptor, keyOf, type RequestDescriptor } from "./descriptors.ts";

const compiled = compileDescriptor(
  { index: 0, counts: "requests", entries: [{ key: "a", expression: '"x"' }] },
  "HTTPRoute/n/r",
);

function of(...entries: readonly (readonly [string, string])[]): RequestDescriptor {
  return { compiled, entries: entries.map(([key, value]) => ({ key, value })), hits: 1, override: undefined };
}

describe("the key of a descriptor", () => {
  test.each([
    ["values", of(["a", "1"]), of(["a", "2"])],
    ["names", of(["a", "1"]), of(["b", "1"])],
    ["one value that looks like two", of(["a", "1 1:b=1:2"]), of(["a", "1"], ["b", "2"])],
    ["long values", of(["a", "1".repeat(9_000)]), of(["a", `${"1".repeat(8_999)}2`])],
  ])("distinguishes %s", (_, first, second) => {
    expect(keyOf("chat", first)).not.toBe(keyOf("chat", second));
  });

  test("distinguishes domains", () => {
    expect(keyOf("chat 1:a=1:1", of(["b", "2"]))).not.toBe(keyOf("chat", of(["a", "1"], ["b", "2"])));
  });

  test("is bounded, so that clients cannot fill the memory with what they send", () => {
    expect(keyOf("chat", of(["a", "x".repeat(16_000)])).length).toBeLessThanOrEqual(256);
  });
});
