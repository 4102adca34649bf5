/** The regular expressions of routes, for who compiles them before a request needs them. */
import type { Match } from "../ir/match.ts";
import type { Bind } from "../ir/snapshot.ts";
import { type Pattern, patternFor } from "../regex/pattern.ts";

/** Every pattern that a request to `bind` may meet; one that several matches have comes several times. */
export function* patternsOf({ listeners }: Bind): Generator<Pattern> {
  for (const { routes } of listeners) {
    for (const { rules } of routes) {
      for (const { matches } of rules) {
        for (const match of matches) yield* patternsOfMatch(match);
      }
    }
  }
}

function* patternsOfMatch({ path, headers, query }: Match): Generator<Pattern> {
  for (const { kind, value } of [path, ...headers, ...query]) {
    if (kind === "RegularExpression") yield patternFor(value, "whole");
  }
}
