import fc from "fast-check";
import { expect, test } from "vitest";
import { jsonChunks } from "./json-text.ts";

test("pieces are the text of JSON.stringify", () => {
  const value = fc.oneof(fc.jsonValue(), fc.dictionary(fc.string(), fc.option(fc.jsonValue(), { nil: undefined })));
  fc.assert(
    fc.property(value, (each) => {
      expect([...jsonChunks(each)].join("")).toBe(`${JSON.stringify(each, undefined, 2)}\n`);
    }),
  );
});

test("pieces are short, whatever the nesting of a long list", () => {
  const listeners = [{ routes: Array.from({ length: 5_000 }, (_, index) => ({ route: `default/r${index}` })) }];
  const pieces = [...jsonChunks({ binds: [{ listeners }] })];
  expect(pieces.length).toBeGreaterThan(10);
  expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThan(20_000);
});
