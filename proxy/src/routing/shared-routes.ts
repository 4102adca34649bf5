/**
 * The routes of all listeners of a snapshot, each once, with one index of their matches. A route is usually attached to
 * several listeners, on one port or on several, which differ in hostnames and limits and never in matches. So a match is
 * prepared and ranked once, and each listener and hostname selects from the index the matches of its routes.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Match } from "../ir/match.ts";
import type { Bind, Route, RouteRule } from "../ir/snapshot.ts";
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
 * Matches that have been prepared, by the match as written. Kept from snapshot to snapshot, since a route that does not
 * change keeps its matches.
 */
export class PreparedMatches {
  readonly #pathRules: PathRules;
  readonly #prepared = new WeakMap<Match, PreparedMatch>();

  /** @param pathRules how paths of requests are normalised. */
  constructor(pathRules: PathRules) {
    this.#pathRules = pathRules;
  }

  of(written: Match): PreparedMatch {
    const known = this.#prepared.get(written);
    if (known !== undefined) return known;
    const match = normalizeMatch(written, this.#pathRules);
    const { kind, value } = match.path;
    const pattern = kind === "RegularExpression" ? patternFor(value, "whole") : undefined;
    const prepared = { match, conditions: compileConditions(match), pattern };
    this.#prepared.set(written, prepared);
    return prepared;
  }
}

/** A route with its matches, whichever listeners it is attached to. */
interface SharedRoute {
  /** As the first of its listeners has it. */
  readonly route: Route;
  /** Its place in the order of precedence among all routes. */
  place: number;
  /** The reason why its matches cannot be prepared. */
  fault: Error | undefined;
}

/** The routes of a snapshot, and the index of their matches. */
export class SharedRoutes {
  readonly index: PathIndex;
  readonly #shared: ReadonlyMap<Route, SharedRoute>;

  private constructor(index: PathIndex, shared: ReadonlyMap<Route, SharedRoute>) {
    this.index = index;
    this.#shared = shared;
  }

  static *of(binds: readonly Bind[], prepared: PreparedMatches, pace: Pace): Steps<SharedRoutes> {
    const { distinct, shared } = yield* findDistinct(binds, pace);
    const builder = new PathIndexBuilder(pace);
    for (const [place, route] of byPrecedence(distinct).entries()) {
      route.place = place;
      yield* addRoute(builder, route, prepared, pace);
    }
    return new SharedRoutes(yield* builder.build(), shared);
  }

  /** @throws the reason why the route's matches could not be prepared. */
  placeOf(route: Route): number {
    const shared = this.#shared.get(route);
    if (shared === undefined) throw new Error(`route ${route.key} is not one of those that were indexed`);
    if (shared.fault !== undefined) throw shared.fault;
    return shared.place;
  }
}

function* findDistinct(
  binds: readonly Bind[],
  pace: Pace,
): Steps<{ readonly distinct: readonly SharedRoute[]; readonly shared: ReadonlyMap<Route, SharedRoute> }> {
  const distinct: SharedRoute[] = [];
  const shared = new Map<Route, SharedRoute>();
  /** By key. Of one key there are several only where listeners have different versions of the route. */
  const byKey = new Map<string, SharedRoute[]>();
  for (const { listeners } of binds) {
    for (const route of listeners.flatMap(({ routes }) => routes)) {
      const versions = byKey.get(route.key) ?? [];
      byKey.set(route.key, versions);
      let known = shared.get(route) ?? versions.find((version) => haveSameMatches(version.route.rules, route.rules));
      if (known === undefined) {
        known = { route, place: -1, fault: undefined };
        versions.push(known);
        distinct.push(known);
      }
      shared.set(route, known);
      if (pace.isOver(1 + route.rules.length / 16)) yield;
    }
  }
  return { distinct, shared };
}

function haveSameMatches(a: readonly RouteRule[], b: readonly RouteRule[]): boolean {
  return a === b || (a.length === b.length && a.every(({ matches }, at) => matches === b[at]?.matches));
}

/** For compiling patterns, by their size. */
const workPerSize = 10;

/** The regular expressions of a match, which are compiled before a request needs them. */
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

/** Leaves out routes that cannot be prepared; `placeOf` throws the reason for the binds that use them. */
function* addRoute(builder: PathIndexBuilder, shared: SharedRoute, prepared: PreparedMatches, pace: Pace): Steps<void> {
  const { route, place } = shared;
  for (const [rule, { matches }] of route.rules.entries()) {
    for (const written of matches) {
      try {
        const { match, conditions, pattern } = prepared.of(written);
        const patterns = patternsOf(match);
        for (const each of patterns) each.prepare();
        builder.add({ match, conditions, pattern, route: place, rule });
        if (pace.isOver(1 + workPerSize * sizeOf(patterns))) yield;
      } catch (error) {
        shared.fault = error instanceof Error ? error : new Error(String(error));
        return;
      }
    }
  }
}

/** Sets of routes, by place, of which each is selected once. */
export class RouteSets {
  readonly #numbers = new Map<string, number>();
  readonly #sets: (readonly number[])[] = [];

  /** The number of a set, from 0. @param places ascending */
  numberOf(places: readonly number[]): number {
    const key = places.join(" ");
    const known = this.#numbers.get(key);
    if (known !== undefined) return known;
    const number = this.#sets.length;
    this.#numbers.set(key, number);
    this.#sets.push(places);
    return number;
  }

  /** The matches of each set, by its number. */
  *select(index: PathIndex, pace: Pace): Steps<readonly MatchSet[]> {
    return yield* index.select(this.#sets, pace);
  }
}
