import { expect, test } from "vitest";
import type { Match } from "../ir/match.ts";
import { compileRoutes } from "./compile-routes.ts";
import { bindOf, exact, listenerOf, matchOf, prefix, regex, routeOf, ruleOf } from "./testing/builders.ts";

// In the order of the API's text; each line decides between its match and the one below it.
const inOrder: readonly (readonly [name: string, match: Partial<Match>])[] = [
  ["exact path", { path: exact("/a/b") }],
  ["longer regular expression", { path: regex("/[a-z/]+") }],
  ["regular expression", { path: regex("/.*") }],
  ["longer prefix", { path: prefix("/a/b") }],
  ["method", { method: "GET" }],
  ["two headers", { headers: ["a", "b"].map((name) => ({ kind: "Exact", name, value: "1" })) }],
  ["one header", { headers: [{ kind: "Exact", name: "a", value: "1" }] }],
  ["query parameter", { query: [{ kind: "Exact", name: "a", value: "1" }] }],
  ["plain prefix", {}],
];

test("tries matches as the API lists its criteria, regular expressions between exact paths and prefixes", () => {
  const request = { method: "GET", path: "/a/b?a=1", authority: "h", rawHeaders: ["a", "1", "b", "1"] };
  // Against the order, so that nothing is right by having been first.
  let left = inOrder.toReversed();
  const found: string[] = [];
  while (left.length > 0) {
    const rules = left.map(([name, match]) => ({ ...ruleOf([matchOf(match)]), name }));
    const index = compileRoutes(
      bindOf([listenerOf({ routes: [routeOf("r", { rules })] })]),
      (_, __, rule) => rule.name,
    );
    const name = index.find(request)?.compiled;
    found.push(name ?? "none");
    left = left.filter(([each]) => each !== name);
    if (name === undefined) break;
  }
  expect(found).toEqual(inOrder.map(([name]) => name));
});
