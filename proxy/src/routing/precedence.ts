/**
 * Which of two matches on the same host comes first: Gateway API `HTTPRouteRule.matches`, down to the last tie-breaker.
 * The API leaves regular expressions to the implementation: they come after exact paths and before prefixes, longest
 * pattern first, because who writes one means something narrower than a prefix.
 */
import type { Match, PathMatch } from "../ir/match.ts";
import type { Route } from "../ir/snapshot.ts";

/** One match of one rule, with its place. */
export interface RankedMatch {
  readonly match: Match;
  readonly route: Pick<Route, "key" | "creationTimestamp">;
  /** Place of the rule in its route, from 0. */
  readonly ruleIndex: number;
  /** Place of the match in its rule, from 0. */
  readonly matchIndex: number;
}

const pathRank: Readonly<Record<PathMatch["kind"], number>> = { Exact: 0, RegularExpression: 1, PathPrefix: 2 };

/** Negative when `a` is to be tried before `b`; 0 only for a match and itself. For `Array.sort`. */
export function comparePrecedence(a: RankedMatch, b: RankedMatch): number {
  return (
    pathRank[a.match.path.kind] - pathRank[b.match.path.kind] ||
    b.match.path.value.length - a.match.path.value.length ||
    Number(b.match.method !== undefined) - Number(a.match.method !== undefined) ||
    b.match.headers.length - a.match.headers.length ||
    b.match.query.length - a.match.query.length ||
    compare(createdMs(a.route), createdMs(b.route)) ||
    // By code unit, as `namespace/name` in one string: `a-b/x` is before `a/x`.
    compare(a.route.key, b.route.key) ||
    a.ruleIndex - b.ruleIndex ||
    a.matchIndex - b.matchIndex
  );
}

function compare<T extends string | number>(a: T, b: T): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** A route without a readable timestamp (a file says none) is younger than every other. */
function createdMs({ creationTimestamp }: RankedMatch["route"]): number {
  const ms = creationTimestamp === undefined ? Number.NaN : Date.parse(creationTimestamp);
  return Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms;
}
