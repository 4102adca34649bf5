import { describe, expect, test } from "vitest";
import type { Filter } from "../ir/filter.ts";
import { compileFilters } from "./compile-filters.ts";

function requestSet(name: string, value: string): Filter {
  return { kind: "RequestHeaderModifier", set: [{ name, value }], add: [], remove: [] };
}

describe("compileFilters", () => {
  test("compiles an empty list to an empty result", () => {
    expect(compileFilters([])).toEqual({});
  });

  test("keeps request and response edits apart", () => {
    const response: Filter = { kind: "ResponseHeaderModifier", set: [], add: [{ name: "b", value: "2" }], remove: [] };
    const { editRequest, editResponse } = compileFilters([requestSet("a", "1"), response]);
    const [requestHeaders, responseHeaders]: [string[], string[]] = [[], []];
    editRequest?.(requestHeaders);
    editResponse?.(responseHeaders);
    expect([requestHeaders, responseHeaders]).toEqual([
      ["a", "1"],
      ["b", "2"],
    ]);
  });

  test("applies the rule's edits before those of the backend reference", () => {
    const headers: string[] = [];
    compileFilters([requestSet("a", "rule"), requestSet("a", "backend")]).editRequest?.(headers);
    expect(headers).toEqual(["a", "backend"]);
  });

  test("lets the backend reference rewrite what the rule rewrote, part by part", () => {
    const rule: Filter = { kind: "URLRewrite", hostname: "a", path: { kind: "ReplaceFullPath", value: "/rule" } };
    expect(compileFilters([rule, { kind: "URLRewrite", hostname: "b" }])).toEqual({
      hostname: "b",
      path: { kind: "ReplaceFullPath", value: "/rule" },
    });
  });

  test("treats setting the host header as a rewrite of the authority", () => {
    expect(compileFilters([requestSet("host", "other.example.com")])).toEqual({ hostname: "other.example.com" });
  });
});
