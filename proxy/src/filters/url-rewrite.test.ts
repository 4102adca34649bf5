import { describe, expect, test } from "vitest";
import type { PathMatch } from "../ir/match.ts";
import { rewritePath } from "./url-rewrite.ts";

const matchOf = (path: PathMatch) => ({ path, headers: [], query: [] });
const prefix = (value: string) => matchOf({ kind: "PathPrefix", value });

describe("ReplacePrefixMatch", () => {
  // The first eleven rows are the table of Gateway API `HTTPPathModifier.replacePrefixMatch`.
  test.each([
    ["/foo/bar", "/foo", "/xyz", "/xyz/bar"],
    ["/foo/bar", "/foo", "/xyz/", "/xyz/bar"],
    ["/foo/bar", "/foo/", "/xyz", "/xyz/bar"],
    ["/foo/bar", "/foo/", "/xyz/", "/xyz/bar"],
    ["/foo", "/foo", "/xyz", "/xyz"],
    ["/foo/", "/foo", "/xyz", "/xyz/"],
    ["/foo/bar", "/foo", "", "/bar"],
    ["/foo/", "/foo", "", "/"],
    ["/foo", "/foo", "", "/"],
    ["/foo/", "/foo", "/", "/"],
    ["/foo", "/foo", "/", "/"],
    ["/bar", "/", "/xyz", "/xyz/bar"],
    ["/", "/", "/xyz", "/xyz/"],
    ["/foo/bar?a=/foo", "/foo", "/xyz", "/xyz/bar?a=/foo"],
    ["/foo?a", "/foo", "/", "/?a"],
  ])("turns %s with prefix %s and replacement '%s' into %s", (target, matched, value, expected) => {
    expect(rewritePath({ kind: "ReplacePrefixMatch", value }, prefix(matched), target)).toBe(expected);
  });

  test("leaves the path of a match that has no prefix", () => {
    const match = matchOf({ kind: "Exact", value: "/foo" });
    expect(rewritePath({ kind: "ReplacePrefixMatch", value: "/x" }, match, "/foo?q")).toBe("/foo?q");
  });
});

describe("ReplaceFullPath", () => {
  test.each([
    ["/a/b", "/one", "/one"],
    ["/a/b?q=1&r", "/one", "/one?q=1&r"],
    ["/a", "", "/"],
    ["/a", "one", "/one"],
  ])("turns %s with '%s' into %s", (target, value, expected) => {
    expect(rewritePath({ kind: "ReplaceFullPath", value }, prefix("/"), target)).toBe(expected);
  });
});
