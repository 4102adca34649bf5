/**
 * Routes of all listeners of a snapshot, without duplicates, with one index of their matches. A route is usually
 * attached to several listeners, on one port or on several. Its hostnames and limits may differ between listeners, but
 * not its matches. So each match is prepared and ranked once, and each hostname of a listener selects the matches of
 * its routes from the index.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { toError } from "@gatewayproxy/runtime/thrown-value";
import type { Match } from "../ir/match.ts";
import type { Route, RouteRule } from "../ir/snapshot.ts";
import { type Pattern, patternFor } from "../regex/pattern.ts";
import { compileConditions } from "./conditions.ts";
import { normalizeMatch } from "./normalize-match.ts";
import type { Pace } from "./pace.ts";
import type { Candidate, MatchSet, PathIndex } from "./path-index.ts";
import { PathIndexBuilder } from "./path-index-builder.ts";
import type { PathRules } from "./path-rules.ts";
import { byPrecedence } from "./precedence.ts";

type PreparedMatch = Pick<Candidate, "match" | "conditions" | "pattern">;

/**
 * Prepared matches, by the original match. They outlive a snapshot, because an unchanged route has the same matches in
 * the next one.
 */
export class PreparedMatches {
  readonly #pathRules: PathRules;
  readonly #prepared = new WeakMap<Match, PreparedMatch>();

  /** @param pathRules how paths of requests are normalised. */
  constructor(pathRules: PathRules) {
    this.#pathRules = pathRules;
  }

  of(original: Match): PreparedMatch {
    const cached = this.#prepared.get(original);
    if (cached !== undefined) return cached;
    const match = normalizeMatch(original, this.#pathRules);
    const { kind, value } = match.path;
    const pattern = kind === "RegularExpression" ? patternFor(value, "whole") : undefined;
    const prepared = { match, conditions: compileConditions(match), pattern };
    this.#prepared.set(original, prepared);
    return prepared;
  }
}

/** A route with its matches, shared by all listeners to which it is attached. */
interface SharedRoute {
  /** The route as attached to the first of its listeners. */
  readonly route: Route;
  /** Its position in the order of precedence. */
  position: number;
  /** The error that prevents the preparation of its matches. */
  error: Error | undefined;
}

/** The routes of several listeners, and the index of their matches. */
export class SharedRoutes {
  readonly index: PathIndex;
  /** The keys of the routes, by their positions. */
  readonly keys: readonly string[];
  readonly #shared: ReadonlyMap<Route, SharedRoute>;

  private constructor(index: PathIndex, keys: readonly string[], shared: ReadonlyMap<Route, SharedRoute>) {
    this.index = index;
    this.keys = keys;
    this.#shared = shared;
  }

  /** @param listeners the routes of each listener. */
  static *of(listeners: readonly (readonly Route[])[], prepared: PreparedMatches, pace: Pace): Steps<SharedRoutes> {
    const { distinct, shared } = yield* findDistinct(listeners, pace);
    const builder = new PathIndexBuilder(pace);
    const sorted = byPrecedence(distinct);
    for (const [position, route] of sorted.entries()) {
      route.position = position;
      yield* addRoute(builder, route, prepared, pace);
    }
    const keys = sorted.map(({ route }) => route.key);
    return new SharedRoutes(yield* builder.build(), keys, shared);
  }

  /**
   * Returns the position of a route in the order of precedence.
   *
   * @throws the error that prevented the preparation of its matches.
   */
  positionOf(route: Route): number {
    const shared = this.#shared.get(route);
    if (shared === undefined) throw new Error(`route ${route.key} is not one of those that were indexed`);
    if (shared.error !== undefined) throw shared.error;
    return shared.position;
  }
}

function* findDistinct(
  listeners: readonly (readonly Route[])[],
  pace: Pace,
): Steps<{ readonly distinct: readonly SharedRoute[]; readonly shared: ReadonlyMap<Route, SharedRoute> }> {
  const distinct: SharedRoute[] = [];
  const shared = new Map<Route, SharedRoute>();
  /** By key. A key has several routes only if listeners have different versions of the route. */
  const byKey = new Map<string, SharedRoute[]>();
  for (const routes of listeners) {
    for (const route of routes) {
      const versions = byKey.get(route.key) ?? [];
      byKey.set(route.key, versions);
      let existing = shared.get(route) ?? versions.find((version) => haveSameMatches(version.route.rules, route.rules));
      if (existing === undefined) {
        existing = { route, position: -1, error: undefined };
        versions.push(existing);
        distinct.push(existing);
      }
      shared.set(route, existing);
      if (pace.endsStep(1 + route.rules.length / 16)) yield;
    }
  }
  return { distinct, shared };
}

function haveSameMatches(a: readonly RouteRule[], b: readonly RouteRule[]): boolean {
  return a === b || (a.length === b.length && a.every(({ matches }, at) => matches === b[at]?.matches));
}

/** Work to compile a pattern, per unit of its size. */
const workPerSize = 10;

/** Returns the regular expressions of a match, to compile them before a request needs them. */
function patternsOf({ path, headers, query }: Match): readonly Pattern[] {
  if (path.kind !== "RegularExpression" && headers.length + query.length === 0) return none;
  return [path, ...headers, ...query].flatMap(({ kind, value }) =>
    kind === "RegularExpression" ? [patternFor(value, "whole")] : [],
  );
}

const none: readonly Pattern[] = [];

function sizeOf(patterns: readonly Pattern[]): number {
  return patterns.reduce((sum, { size }) => sum + size, 0);
}

/** Leaves out routes that cannot be prepared; `positionOf` throws the error for the binds that use them. */
function* addRoute(builder: PathIndexBuilder, shared: SharedRoute, prepared: PreparedMatches, pace: Pace): Steps<void> {
  const { route, position } = shared;
  for (const [rule, { matches }] of route.rules.entries()) {
    for (const original of matches) {
      try {
        const { match, conditions, pattern } = prepared.of(original);
        const patterns = patternsOf(match);
        for (const compiled of patterns) compiled.prepare();
        builder.add({ match, conditions, pattern, route: position, rule });
        if (pace.endsStep(1 + workPerSize * sizeOf(patterns))) yield;
      } catch (error) {
        shared.error = toError(error);
        return;
      }
    }
  }
}

/** Distinct sets of routes, identified by the positions of their routes. The matches of each set are selected once. */
export class RouteSets {
  readonly #numbers = new Map<string, number>();
  readonly #sets: (readonly number[])[] = [];

  /**
   * Returns the number of a set, from 0.
   *
   * @param positions in ascending order.
   */
  numberOf(positions: readonly number[]): number {
    const key = positions.join(" ");
    const cached = this.#numbers.get(key);
    if (cached !== undefined) return cached;
    const number = this.#sets.length;
    this.#numbers.set(key, number);
    this.#sets.push(positions);
    return number;
  }

  /** Returns the matches of each set, by its number. */
  *select(index: PathIndex, pace: Pace): Steps<readonly MatchSet[]> {
    return yield* index.select(this.#sets, pace);
  }
}
