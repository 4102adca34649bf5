/**
 * The order of matches at the same host, as specified for `HTTPRouteRule.matches` in the Gateway API, with all
 * tie-breakers. The path decides first (`path-index.ts`): exact, then regular expression, then prefix, and of one kind
 * the longest. The API leaves regular expressions to the implementation: they come after exact paths and before
 * prefixes, because a regular expression is usually narrower than a prefix. Then the conditions decide, then the age of
 * the route, then its name, then the order in the route.
 */
import { routeName } from "@gatewayproxy/runtime/route-key";
import type { Match } from "../ir/match.ts";
import type { Route } from "../ir/snapshot.ts";

/** The fields that decide between two routes. */
export type RouteAge = Pick<Route, "key" | "creationTimestamp">;

/** Greater than the number of headers, and of query parameters, that a match can have. */
const manyConditions = 2 ** 20;

/**
 * Returns the rank of a match by its conditions, among the matches with the same path. A lower rank precedes. Between
 * equal ranks, the routes decide.
 */
export function conditionRank({ method, headers, query }: Match): number {
  const ofMethod = method === undefined ? 1 : 0;
  const ofHeaders = manyConditions - 1 - headers.length;
  const ofQuery = manyConditions - 1 - query.length;
  return (ofMethod * manyConditions + ofHeaders) * manyConditions + ofQuery;
}

/** Sorts by route, in the order of `compareRoutes`. Parses each timestamp once. */
export function byPrecedence<Item extends { readonly route: RouteAge }>(items: Iterable<Item>): readonly Item[] {
  return Array.from(items, (item) => ({ item, ms: createdMs(item.route) }))
    .sort((a, b) => compare(a.ms, b.ms) || compareKeys(a.item.route.key, b.item.route.key))
    .map(({ item }) => item);
}

/** Compares routes with matches of equal rank, for `Array.sort`: the older one first, then by `namespace/name`. */
export function compareRoutes(a: RouteAge, b: RouteAge): number {
  return compareAge(a, b) || compareKeys(a.key, b.key);
}

/**
 * Compares `namespace/name` as one string, by code unit: `a-b/x` is before `a/x`. Routes of different kinds come by
 * their kind.
 */
function compareKeys(a: string, b: string): number {
  return compare(routeName(a), routeName(b)) || compare(a, b);
}

/** Returns the criterion that orders two routes with matches of equal rank. */
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

/**
 * Returns the creation time. A route without a valid timestamp, such as a route from a file, is younger than all
 * others.
 */
function createdMs({ creationTimestamp }: RouteAge): number {
  const ms = creationTimestamp === undefined ? Number.NaN : Date.parse(creationTimestamp);
  return Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms;
}
