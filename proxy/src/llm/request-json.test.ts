import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { asciiFolds } from "./json-names.ts";
import { maxJsonDepth, readJson, RequestJsonReader, type MemberNames } from "./request-json.ts";

const names: MemberNames = { stream: [], stream_options: ["include_usage"] };

const isJsonObject = (text: Buffer): boolean => readJson(text, names).kind === "object";

test.each([
  "{}",
  " {\n} \t\r",
  '\ufeff{"a":1}',
  '{"a":[1,-0.5e+7,true,null,"\\u00e9\\n",{},[]],"a":{"b":[[]]}}',
  `{"a":${"[".repeat(maxJsonDepth - 1)}${"]".repeat(maxJsonDepth - 1)}}`,
])("accepts %j", (text) => {
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
  `{"a":${"1".repeat(2_000)}}`,
  '{"a":1.}',
  '{"a":1e}',
  '{"a":-}',
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
])("rejects %j", (text) => {
  expect(isJsonObject(Buffer.from(text))).toBe(false);
});

test("rejects other encodings", () => {
  const utf16 = Buffer.from('{"a":1}', "utf16le");
  expect(isJsonObject(utf16)).toBe(false);
  expect(isJsonObject(Buffer.from(utf16).swap16())).toBe(false);
  expect(isJsonObject(Buffer.from('{"a":"é"}', "latin1"))).toBe(false);
});

test("accepts the texts that JSON.parse reads as an object, and no others", () => {
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
  // Lone surrogates have no UTF-8 encoding, so they are not part of the grammar.
  try {
    const value: unknown = JSON.parse(Buffer.from(text).toString());
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

describe("named members", () => {
  /** The name, whether the spelling is exact, and the text of each; nested members follow their parent. */
  function found(text: string): unknown {
    const reading = readJson(Buffer.from(text), names);
    if (reading.kind !== "object") return reading;
    const listed = (members: typeof reading.object.members): unknown[] =>
      members.map(({ name, isExact, start, end, object }) => {
        const value = reading.body.toString("utf8", start, end);
        return object === undefined ? [name, isExact, value] : [name, isExact, value, listed(object.members)];
      });
    return listed(reading.object.members);
  }

  test.each([
    ['{ "stream" :\n[ 1, {"stream":2} ]\t,"x":"stream"}', [["stream", true, '[ 1, {"stream":2} ]']]],
    [
      '{"Stream":1,"str\\u0065am":-1.5e3}',
      [
        ["stream", false, "1"],
        ["stream", true, "-1.5e3"],
      ],
    ],
    ['{"stream\\u0000x":"é\\""}', [["stream", false, '"é\\""']]],
    [
      '{"\u017ftream":true,"\ufb06ream":null,"\u212a":0}',
      [
        ["stream", false, "true"],
        ["stream", false, "null"],
      ],
    ],
    ['{"stream_options":[],"stream_optionss":{},"strea\\n":{}}', [["stream_options", true, "[]"]]],
    [
      '{"stream_options": {"a":{"include_usage":1},"include_usage":{}} }',
      [["stream_options", true, '{"a":{"include_usage":1},"include_usage":{}}', [["include_usage", true, "{}"]]]],
    ],
    ['{"include_usage":1,"x":{"include_usage":1}}', []],
  ])("of %s", (text, expected) => {
    expect(found(text)).toEqual(expected);
  });

  test("all characters whose upper case is ASCII are listed", () => {
    const folds = new Map<number, string>();
    for (let code = 0x80; code < 0x1_0000; code++) {
      const folded = String.fromCodePoint(code).toUpperCase().toLowerCase();
      if (Buffer.byteLength(folded) === folded.length) folds.set(code, folded);
    }
    expect(folds).toEqual(asciiFolds);
  });

  test("are found in slices of any size", () => {
    const name = fc.constantFrom("stream", "STREAM", "stream_options", "include_usage", "x", "a\\u0062\\n");
    const scalar = fc.oneof(
      fc.constantFrom("true", "null", "-0.5e+7", '"\\u00e9\\\\"', '"stream"', "[]", "{}", " 1 "),
      fc.jsonValue().map((value) => JSON.stringify(value)),
    );
    const object = (value: fc.Arbitrary<string>) =>
      fc.array(fc.tuple(name, value), { maxLength: 5 }).map((members) => {
        return `{${members.map(([key, text]) => `"${key}": ${text}`).join(" ,")}}`;
      });
    fc.assert(
      fc.property(object(fc.oneof(scalar, object(scalar))), fc.integer({ min: 1, max: 40 }), (text, bytes) => {
        const body = Buffer.from(text);
        const reader = new RequestJsonReader(body, names);
        let reading = reader.read(bytes);
        while (reading === undefined) reading = reader.read(bytes);
        expect(reading).toEqual(readJson(body, names));
      }),
      { numRuns: 300 },
    );
  });
});

describe("blanks", () => {
  test.each([
    ["before the object", (blanks: string) => `${blanks}{"model":"x"}`],
    ["in the object", (blanks: string) => `{${blanks}"model":"x"}`],
    ["after the object", (blanks: string) => `{"model":"x"}${blanks}`],
  ])("%s are read in slices too", (_where, textWith) => {
    const body = Buffer.from(textWith(" \n\r\t".repeat(25_000)));
    const reader = new RequestJsonReader(body, { model: [] });
    let slices = 1;
    let reading = reader.read(1_000);
    for (; reading === undefined; slices++) reading = reader.read(1_000);
    expect(reading.kind).toBe("object");
    expect(slices).toBeGreaterThanOrEqual(100);
  });

  test.each(["", "  ", "\ufeff  ", "  []", '  "x"', "  1"])("without an object: %j", (text) => {
    expect(readJson(Buffer.from(text), { model: [] }).kind).toBe("notObject");
  });
});

describe("nested members", () => {
  const wanted: MemberNames = { model: [], tools: ["name"], "**": ["*model*"], "!**": ["schema", "input[]"] };
  const found = (body: string): readonly string[] => {
    for (const size of [1, 3, Infinity]) {
      const reader = new RequestJsonReader(Buffer.from(body), wanted);
      let reading = reader.read(size);
      while (reading === undefined) reading = reader.read(size);
      if (reading.kind !== "object") return [reading.kind];
      const values = reading.nested?.map(({ start, end }) => body.slice(start, end)) ?? [];
      if (size === Infinity) return values;
    }
    return [];
  };

  test.each([
    ["of the object itself", '{"model":1,"xmodel":2}', []],
    ["at any depth", '{"a":{"model":1,"b":[[{"MODEL_x":"2"}]]}}', ["1", '"2"']],
    ["in each other", '{"a":{"model":{"b":{"model":[1]}}}}', ["[1]", '{"b":{"model":[1]}}']],
    ["after other values", '{"a":{"b":{"c":1},"model":{"d":2},"e":3,"model":4}}', ['{"d":2}', "4"]],
    ["not in opaque values", '{"schema":{"model":1},"a":{"schema":[{"model":2}],"model":3}}', ["3"]],
    ["not in opaque arrays", '{"input":[{"model":1}],"a":{"input":{"model":2}}}', ["2"]],
    ["after an opaque value that is not an object", '{"schema":1,"a":{"schema":"x","b":{"model":1}}}', ["1"]],
    ["below watched members", '{"tools":[{"name":1,"x":{"model":2}}]}', ["2"]],
  ])("%s", (_where, body, values) => {
    expect(found(body)).toEqual(values);
  });

  test("are bounded in number", () => {
    expect(found(`{"a":[${'{"model":1},'.repeat(5_000)}1]}`)).toEqual(["repeated"]);
  });
});
