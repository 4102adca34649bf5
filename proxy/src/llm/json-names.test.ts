import fc from "fast-check";
import { expect, test } from "vitest";
import { NameMatcher } from "./json-names.ts";

/**
 * The reference: whole names take precedence over parts; case is ignored and a NUL ends a name. @returns valid results.
 */
function findPlainly(names: readonly string[], name: string): readonly (string | undefined)[] {
  const lower = name.toLowerCase().split("\0", 1)[0] ?? "";
  const parts = names.filter((each) => each.startsWith("*"));
  if (names.includes(lower) && !lower.startsWith("*")) return [lower];
  const found = parts.filter((part) => lower.includes(part.slice(1, -1)));
  return found.length === 0 ? [undefined] : found;
}

test("finds the same as a plain comparison, in any spelling", () => {
  const names = ["model", "modes", "stream", "stream_options", "*model*", "*lora*", "x"];
  const matcher = new NameMatcher(names);
  const piece = fc.oneof(
    fc.constantFrom(...["model", "lora", "stream", "_options", "mode", "s", "x", "\0", "MoDeL"]),
    fc.string({ maxLength: 2 }),
  );
  const isEscaped = fc.array(fc.boolean(), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 5 }), isEscaped, (pieces, escapes) => {
      const name = pieces.join("");
      const written = Array.from({ length: name.length }, (_, at) => {
        const code = name.charCodeAt(at);
        const mustEscape = code < 0x20 || '"\\'.includes(name[at] ?? "");
        return mustEscape || escapes[at % escapes.length] === true
          ? `\\u${code.toString(16).padStart(4, "0")}`
          : (name[at] ?? "");
      }).join("");
      const text = Buffer.from(`{"${written}":1}`);
      expect(findPlainly(names, name)).toContain(matcher.find(text, 2, text.length - 4));
    }),
    { numRuns: 2_000 },
  );
});
