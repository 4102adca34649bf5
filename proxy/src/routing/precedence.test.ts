import { expect, test } from "vitest";
import type { Match } from "../ir/match.ts";
import { comparePrecedence } from "./precedence.ts";
import { exact, matchOf, prefix, regex } from "./testing/builders.ts";

// In the order of the API's text; each line decides between its match and the one below it.
const inOrder: readonly (readonly [name: string, match: Partial<Match>])[] = [
  ["exact path", { path: exact("/a") }],
  ["longer regular expression", { path: regex("/[a-z]+") }],
  ["regular expression", { path: regex("/.*") }],
  ["longer prefix", { path: prefix("/a/b/c/d/e/f") }],
  ["method", { method: "GET" }],
  ["two headers", { headers: ["a", "b"].map((name) => ({ kind: "Exact", name, value: "1" })) }],
  ["one header", { headers: [{ kind: "Exact", name: "a", value: "1" }] }],
  ["query parameter", { query: [{ kind: "Exact", name: "a", value: "1" }] }],
  ["plain prefix", {}],
];

test("orders matches as the API lists its criteria, regular expressions between exact paths and prefixes", () => {
  const ranked = inOrder.map(([name, match], place) => ({
    name,
    match: matchOf(match),
    route: { key: "default/r" },
    // Against the order, so that nothing is right by having been first.
    ruleIndex: inOrder.length - place,
    matchIndex: 0,
  }));
  const sorted = ranked.toReversed().sort(comparePrecedence);
  expect(sorted.map(({ name }) => name)).toEqual(inOrder.map(([name]) => name));
});
