import fc from "fast-check";
import { expect, test } from "vitest";
import { isJsonObject, maxJsonDepth } from "./strict-json.ts";

test.each([
  "{}",
  " {\n} \t\r",
  '\ufeff{"a":1}',
  '{"a":[1,-0.5e+7,true,null,"\\u00e9\\n",{},[]],"a":{"b":[[]]}}',
  `{"a":${"[".repeat(maxJsonDepth - 1)}${"]".repeat(maxJsonDepth - 1)}}`,
])("takes %j", (text) => {
  expect(isJsonObject(Buffer.from(text))).toBe(true);
});

test.each([
  "",
  "[]",
  '"{}"',
  "{}{}",
  "{",
  "}",
  '{"a":1,}',
  '{,"a":1}',
  '{"a":[1,]}',
  '{"a" 1}',
  '{"a":1]',
  "{'a':1}",
  "{a:1}",
  '{"a":NaN}',
  '{"a":Infinity}',
  '{"a":01}',
  '{"a":+1}',
  '{"a":0x1}',
  '{"a":.5}',
  '{"a":1} // x',
  '{/* x */"a":1}',
  '{"a":"\t"}',
  '{"a":"\\x41"}',
  '{"a":"\\u12G4"}',
  '{"a":"\\u123',
  '{"a":tru}',
  '{"a":True}',
  '{\u00a0"a":1}',
  `{"a":${"[".repeat(maxJsonDepth)}${"]".repeat(maxJsonDepth)}}`,
])("refuses %j", (text) => {
  expect(isJsonObject(Buffer.from(text))).toBe(false);
});

test("refuses other encodings", () => {
  const utf16 = Buffer.from('{"a":1}', "utf16le");
  expect(isJsonObject(utf16)).toBe(false);
  expect(isJsonObject(Buffer.from(utf16).swap16())).toBe(false);
  expect(isJsonObject(Buffer.from('{"a":"é"}', "latin1"))).toBe(false);
});

test("takes what JSON.parse makes an object of, and nothing else", () => {
  const object = fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue());
  const text = fc
    .tuple(
      object,
      fc.boolean(),
      fc.array(fc.tuple(fc.nat(), fc.constantFrom(...Array.from("{}[],:\"\\0.eE-+ tn\u0000a'/"))), { maxLength: 2 }),
    )
    .map(([value, isIndented, faults]) => {
      let json = JSON.stringify(value, undefined, isIndented ? "\t" : "");
      for (const [place, char] of faults) {
        const at = place % (json.length + 1);
        json = json.slice(0, at) + char + json.slice(at + (place % 2));
      }
      return json;
    });
  fc.assert(
    fc.property(text, (json) => {
      expect(isJsonObject(Buffer.from(json))).toBe(isObject(json));
    }),
    { numRuns: 500 },
  );
});

function isObject(text: string): boolean {
  // Lone surrogates have no UTF-8; what is sent in their place is no part of the grammar.
  try {
    const value: unknown = JSON.parse(Buffer.from(text).toString());
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
