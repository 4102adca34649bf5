/**
 * Which of two matches on the same host comes first: Gateway API `HTTPRouteRule.matches`, down to the last tie-breaker.
 * The path decides first (`path-index.ts`): exact, then regular expression, then prefix, and of one kind the longest.
 * The API leaves regular expressions to the implementation: they come after exact paths and before prefixes because who
 * writes one means something narrower than a prefix. Then the conditions decide, then the age of the route, its name,
 * and the place in it.
 */
import type { Match } from "../ir/match.ts";
import type { Route } from "../ir/snapshot.ts";

/** What decides between routes. */
export type RouteAge = Pick<Route, "key" | "creationTimestamp">;

/** More than a match has of headers, or of query parameters. */
const manyConditions = 2 ** 20;

/** Place of a match among those with its path, by its conditions: lower goes first. Equal for those that routes decide. */
export function conditionRank({ method, headers, query }: Match): number {
  const ofMethod = method === undefined ? 1 : 0;
  const ofHeaders = manyConditions - 1 - headers.length;
  const ofQuery = manyConditions - 1 - query.length;
  return (ofMethod * manyConditions + ofHeaders) * manyConditions + ofQuery;
}

/** Routes in the order of `compareRoutes`, each timestamp read once. */
export function byPrecedence<Item extends { readonly route: RouteAge }>(items: Iterable<Item>): readonly Item[] {
  return Array.from(items, (item) => ({ item, ms: createdMs(item.route) }))
    .sort((a, b) => compare(a.ms, b.ms) || compare(a.item.route.key, b.item.route.key))
    .map(({ item }) => item);
}

/** Between routes with matches of one rank: the older first, then by `namespace/name`. For `Array.sort`. */
export function compareRoutes(a: RouteAge, b: RouteAge): number {
  // By code unit, as `namespace/name` in one string: `a-b/x` is before `a/x`.
  return compareAge(a, b) || compare(a.key, b.key);
}

/** Which step of the order has put one route before another, for matches of one rank. */
export function decisionBetween(a: RouteAge, b: RouteAge): "Age" | "Name" | "RuleOrder" {
  if (a.key === b.key) return "RuleOrder";
  return compareAge(a, b) === 0 ? "Name" : "Age";
}

function compareAge(a: RouteAge, b: RouteAge): number {
  return a.creationTimestamp === b.creationTimestamp ? 0 : compare(createdMs(a), createdMs(b));
}

function compare<T extends string | number>(a: T, b: T): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** A route without a readable timestamp (a file says none) is younger than every other. */
function createdMs({ creationTimestamp }: RouteAge): number {
  const ms = creationTimestamp === undefined ? Number.NaN : Date.parse(creationTimestamp);
  return Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms;
}
