import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { JsonMembers, maxKeptBytes, type Member, memberPaths } from "./json-members.ts";

const paths = memberPaths("usage", "response.usage", "a");

function read(chunks: readonly Buffer[]): readonly Member[] {
  const members: Member[] = [];
  const reader = new JsonMembers(paths, (member) => {
    members.push({ ...member, value: member.value && Buffer.from(member.value) });
  });
  for (const chunk of chunks) reader.push(chunk);
  return members;
}

function values(text: string): readonly (readonly [string, unknown])[] {
  return read([Buffer.from(text)]).map(({ path, value }) => [path, JSON.parse(String(value))] as const);
}

/** Cuts into chunks of the given sizes in turn; size 0 gives an empty chunk. */
function cut(bytes: Buffer, sizes: readonly number[]): readonly Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return chunks;
}

const sizes = fc
  .array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 5 })
  .filter((a) => a.some((n) => n > 0));

/** The expected `JsonMembers.textBytes` of a value without escapes. */
function textBytesOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  const isId = (element: unknown) => typeof element === "number" && /^\d+$/.test(JSON.stringify(element));
  const ids = Array.isArray(value) ? 4 * value.filter(isId).length : 0;
  const names = Array.isArray(value) ? 0 : Object.keys(value).join("").length;
  return Object.values(value).reduce((sum: number, each) => sum + textBytesOf(each), ids + names);
}

describe("JsonMembers", () => {
  test("reports members of the top level and of a parent, in the order in which they end", () => {
    expect(values('{"x":[{"usage":1}],"usage":{"t":[1,{"usage":2}]},"response":{"usage":3,"y":{}},"a":"}"}')).toEqual([
      ["usage", { t: [1, { usage: 2 }] }],
      ["response.usage", 3],
      ["a", "}"],
    ]);
  });

  test("reports each occurrence of a repeated name", () => {
    expect(values('{"a":1,"a":2}')).toEqual([
      ["a", 1],
      ["a", 2],
    ]);
  });

  test("does not mistake a value, a part of a string or an element for a name", () => {
    expect(values(String.raw`{"x":"usage","y\"usage":1,"z":["usage",{"usage":1}],"b":"\\","a":"\"usage\":1"}`)).toEqual(
      [["a", '"usage":1']],
    );
  });

  test("recognizes a name with escapes", () => {
    expect(values(String.raw`{"us\u0061ge":1}`)).toEqual([["usage", 1]]);
  });

  test("searches a parent only if it is an object", () => {
    expect(values('{"response":["usage",{"usage":1}],"usage":2}')).toEqual([["usage", 2]]);
  });

  test("reports the offsets of a member, to remove it or to replace its value", () => {
    const text = '{"x":1 , "a": 5 ,"y":2}';
    const [member] = read([Buffer.from(text)]);
    expect(text.slice(member?.before, member?.after)).toBe(', "a": 5 ');
    expect(text.slice(member?.valueStart, member?.after)).toBe(" 5 ");
  });

  test("reports the end of the object, and reads nothing after it", () => {
    const members: string[] = [];
    const reader = new JsonMembers(paths, ({ path }) => members.push(path));
    reader.push(Buffer.from(' {"usage":1} {"a":2}'));
    expect(reader.end).toBe(11);
    expect(members).toEqual(["usage"]);
  });

  test.each(["", "[", '["usage",1]', '"usage"', "nonsense", "}{", "<html>", '{"usage"', '{"usage":{"t":1}'])(
    "finds nothing in %j",
    (text) => {
      expect(values(text)).toEqual([]);
    },
  );

  test("keeps no value above its bound, and continues", () => {
    const text = Buffer.from(`{"usage":"${"x".repeat(2 * maxKeptBytes)}","a":1}`);
    expect(read(cut(text, [1000])).map(({ path, value }) => [path, value?.toString()])).toEqual([
      ["usage", undefined],
      ["a", "1"],
    ]);
  });

  test("reports the members of the objects of an array, and no deeper ones", () => {
    const text = '[{"a":1,"x":[{"a":2}]}, 7, "a", [{"a":3}, "a"], {}, {"response":{"usage":4,"a":5},"usage":6}]';
    expect(read(cut(Buffer.from(text), [3])).map(({ element, path, value }) => [element, path, String(value)])).toEqual(
      [
        [1, "a", "1"],
        [3, "response.usage", "4"],
        [3, "usage", "6"],
      ],
    );
  });

  test("finds the same as JSON.parse in the objects of an array, in any chunks", () => {
    const name = fc.oneof(fc.constantFrom("usage", "a", "\\", '"'), fc.string());
    const array = fc.array(fc.oneof(fc.dictionary(name, fc.jsonValue()), fc.jsonValue()), { maxLength: 5 });
    fc.assert(
      fc.property(array, sizes, (value, chunkSizes) => {
        const bytes = Buffer.from(JSON.stringify(value));
        const objects = (JSON.parse(bytes.toString()) as unknown[]).filter(
          (each) => typeof each === "object" && each !== null && !Array.isArray(each),
        );
        const found = read(cut(bytes, chunkSizes)).filter(({ path }) => path !== "response.usage");
        const listed = found.map(({ element, path, value: json }) => [
          element,
          path,
          JSON.parse(String(json)) as unknown,
        ]);
        const expected = objects.flatMap((object, at) =>
          Object.entries(object as object).flatMap(([path, member]) =>
            path === "usage" || path === "a" ? [[at + 1, path, member]] : [],
          ),
        );
        expect(listed).toEqual(expected);
      }),
    );
  });

  test("finds the same as JSON.parse, for any object in any chunks", () => {
    const name = fc.oneof(fc.constantFrom("usage", "response", "a", "\\", '"'), fc.string({ unit: "binary" }));
    const member = fc.jsonValue({ maxDepth: 2, depthSize: "xsmall" });
    const object = fc.dictionary(name, fc.oneof(member, fc.dictionary(name, member, { maxKeys: 4 })), { maxKeys: 6 });
    fc.assert(
      fc.property(object, fc.boolean(), sizes, (value, indented, chunkSizes) => {
        const bytes = Buffer.from(JSON.stringify(value, undefined, indented ? " \t" : undefined));
        const found = Object.fromEntries(
          read(cut(bytes, chunkSizes)).map(({ path, value: json }) => [path, JSON.parse(String(json)) as unknown]),
        );
        const parsed = JSON.parse(bytes.toString()) as Record<string, unknown>;
        const response = parsed["response"];
        const nested = typeof response === "object" && !Array.isArray(response) ? response : undefined;
        const wanted = Object.entries({ ...nested }).map(([key, member]) => [`response.${key}`, member] as const);
        const expected = [...Object.entries(parsed), ...wanted].filter(([path]) => paths.reported.has(path));
        expect(found).toEqual(Object.fromEntries(expected));
      }),
    );
  });

  test("counts the text and the whole numbers of arrays, for any value in any chunks", () => {
    const number = fc.oneof(fc.nat(), fc.double({ noNaN: true, noDefaultInfinity: true }));
    const text = fc.string({ unit: fc.constantFrom("a", "b", " ", "1", ",", ":", "[", "]", "{", "}") });
    const { value: json } = fc.letrec((tie) => ({
      value: fc.oneof({ depthSize: "small" }, number, text, fc.constant(null), tie("array"), tie("object")),
      array: fc.array(tie("value")),
      object: fc.dictionary(text, tie("value")),
    }));
    fc.assert(
      fc.property(fc.array(json), fc.boolean(), sizes, (value, indented, chunkSizes) => {
        const reader = new JsonMembers(paths, () => undefined);
        for (const chunk of cut(
          Buffer.from(JSON.stringify(value, undefined, indented ? " \t" : undefined)),
          chunkSizes,
        )) {
          reader.push(chunk);
        }
        expect(reader.textBytes).toBe(textBytesOf(value));
      }),
    );
  });

  test("never throws for any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ max: 255, maxLength: 200 }), sizes, (bytes, chunkSizes) => {
        read(cut(Buffer.from(bytes), chunkSizes));
      }),
    );
  });
});
