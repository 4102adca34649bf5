import { describe, expect, test } from "vitest";
import type { HeaderEdits } from "../ir/filter.ts";
import { compileHeaderEdits, replaceFields } from "./header-edits.ts";

function edited(edits: Partial<HeaderEdits>, headers: readonly string[]): string[] {
  const result = [...headers];
  compileHeaderEdits({ set: [], add: [], remove: [], ...edits }, "response")?.(result);
  return result;
}

describe("compileHeaderEdits", () => {
  test("set replaces every field of the name, whatever its case", () => {
    const set = [{ name: "my-header", value: "bar" }];
    expect(edited({ set }, ["My-Header", "foo", "a", "1", "MY-HEADER", "x"])).toEqual(["a", "1", "my-header", "bar"]);
  });

  test("set adds a field that was not there", () => {
    expect(edited({ set: [{ name: "a", value: "1" }] }, [])).toEqual(["a", "1"]);
  });

  test("add keeps existing values and appends its own", () => {
    const add = [{ name: "my-header", value: "bar,baz" }];
    expect(edited({ add }, ["my-header", "foo"])).toEqual(["my-header", "foo", "my-header", "bar,baz"]);
  });

  test("add to a request keeps one line per name", () => {
    const headers = ["My-Header", "foo", "Cookie", "a=1"];
    const add = [
      { name: "my-header", value: "bar,baz" },
      { name: "cookie", value: "b=2" },
      { name: "x", value: "1" },
    ];
    compileHeaderEdits({ set: [], add, remove: [] }, "request")?.(headers);
    expect(headers).toEqual(["My-Header", "foo,bar,baz", "Cookie", "a=1; b=2", "x", "1"]);
  });

  test("replaceFields leaves nothing of what the names held before", () => {
    const headers = ["X-Tier", "gold", "a", "1"];
    replaceFields(headers, ["x-tier", "free", "x-tier", "eu"]);
    expect(headers).toEqual(["a", "1", "x-tier", "free,eu"]);
  });

  test("remove drops all fields of the name and keeps the order of the others", () => {
    const headers = ["my-header1", "foo", "my-header2", "bar", "My-Header3", "baz", "my-header1", "x", "z", "1"];
    expect(edited({ remove: ["my-header1", "my-header3"] }, headers)).toEqual(["my-header2", "bar", "z", "1"]);
  });

  test("set comes before add, and remove takes the result of both", () => {
    const a = { name: "a", value: "set" };
    const edits = { set: [a, { name: "b", value: "1" }], add: [{ name: "a", value: "added" }], remove: ["b"] };
    expect(edited(edits, ["a", "old", "b", "old"])).toEqual(["a", "set", "a", "added"]);
  });

  test.each(["content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive"])(
    "leaves %s alone, which says where the body ends or how the connection goes on",
    (name) => {
      const headers = [name, "as it was"];
      expect(edited({ set: [{ name, value: "x" }], add: [{ name, value: "y" }], remove: [name] }, headers)).toEqual(
        headers,
      );
    },
  );

  test("compiles to nothing when there is nothing to do", () => {
    expect(compileHeaderEdits({ set: [], add: [], remove: [] }, "request")).toBeUndefined();
    expect(compileHeaderEdits({ set: [{ name: "te", value: "x" }], add: [], remove: [] }, "request")).toBeUndefined();
  });
});
