/**
 * Compiles the listeners of each socket address to an index, and finds in it the rule of a request by the precedence
 * that the Gateway API prescribes: listener by host, route by host, then the match (see `precedence.ts`). All listeners
 * of a snapshot are compiled together, because routes and matches that several of them share are stored once
 * (`shared-routes.ts`, `host-index.ts`).
 *
 * A request belongs to the most specific listener that its host matches, and never to another one (HTTP listener
 * isolation, GEP-1713). Within the listener, if none of the matches at the most specific host name holds, the request
 * goes to the routes of the next less specific host name.
 */
import { commonEnds, isAt } from "@gatewayproxy/runtime/lists";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { runToEnd, runInSlices, type Steps, type SliceOptions } from "@gatewayproxy/runtime/steps";
import type { Match } from "../ir/match.ts";
import { pagesOfRoutes } from "../ir/route-pages.ts";
import type { Bind, Listener, ObjectName, Route, RouteRule } from "../ir/snapshot.ts";
import { WorkBudget } from "../regex/work-budget.ts";
import { HostTable } from "./host-table.ts";
import { HostIndexer, type IndexedHost } from "./host-index.ts";
import { Pace } from "./pace.ts";
import { defaultPathRules, type PathRules } from "./path-rules.ts";
import { type RequestHead, RequestReading } from "./request-reading.ts";
import { PreparedMatches } from "./shared-routes.ts";

export { modelHeader, ModelUnread } from "./request-reading.ts";
export type { RequestHead, RequestModel } from "./request-reading.ts";

/** The rule that a request matches. */
export interface RouteMatch<T> {
  readonly listener: Listener;
  readonly route: Route;
  readonly rule: RouteRule;
  /** The result of `compileRule`. */
  readonly compiled: T;
  /** The match that holds, with a normalised path; `ReplacePrefixMatch` needs its prefix. */
  readonly match: Match;
  /**
   * Whether the search read a query parameter that occurs twice with different values: a server that reads another of
   * the values could find another rule.
   */
  readonly isQueryAmbiguous: boolean;
}

/** The rules of one socket address. `T` is the compiled form of a rule. */
export interface RouteIndex<T> {
  /**
   * Returns undefined if no listener has the host, or if no rule of the listener matches (404). Throws `BudgetExceeded`
   * if the search costs more than `budget` (`maxMatchUnits` if absent), and `ModelUnread` if the rule depends on the
   * model and the head has none.
   */
  find(head: RequestHead, budget?: WorkBudget): RouteMatch<T> | undefined;
  /** Returns the listener that the request belongs to, whether or not a rule matches. */
  findListener(authority: string): Listener | undefined;
}

/** Creates the value that `find` returns for a rule; called once for each Gateway and list of rules. */
export type CompileRule<T> = (gateway: ObjectName, route: Route, rule: RouteRule) => T;

/** Compiles the rules of one snapshot. */
export interface RuleCompiler<T> {
  readonly compile: CompileRule<T>;
  /** Whether the values of the rules of unchanged routes are still those of the last snapshot; absent: of none. */
  readonly keeps?: (routes: readonly Route[]) => boolean;
}

/**
 * Maximum work to find the rule of one request, regular expressions included: about a millisecond (docs/adr/0007). A
 * pattern that reads a path of 16 KiB to its end costs some 16,000 units. A search among 5,000 matches of one path
 * costs some 15,000 units if each has a header and a query parameter and only the last one holds.
 */
export const maxMatchUnits = 40_000;

/**
 * Compiles the listeners of one socket address. Of listeners with equal hostnames, the first one serves; translation
 * reports the others as conflicted.
 */
export function compileRoutes<T>(
  bind: Bind,
  compile: CompileRule<T>,
  pathRules: PathRules = defaultPathRules,
): RouteIndex<T> {
  return indexOf(runToEnd(new RouteCompiler<T>(pathRules).compileInSteps([bind], { compile })), bind);
}

/** The result for each bind. An error in one bind does not affect the others. */
export type CompiledBinds<T> = ReadonlyMap<Bind, { readonly index: RouteIndex<T> } | { readonly error: unknown }>;

/** @throws the reason why the bind could not be compiled. */
export function indexOf<T>(compiled: CompiledBinds<T>, bind: Bind): RouteIndex<T> {
  const found = compiled.get(bind);
  if (found === undefined) throw new Error(`port ${bind.port} is not one of those that were compiled`);
  if ("error" in found) throw found.error;
  return found.index;
}

/** Work between two steps, in matches that are indexed. */
const workPerStep = 100;
/** Work to compile one rule, in the same unit. */
const workPerRule = 10;
/** Work to keep the rules of a route, in the same unit. */
const workPerKept = 1 / 16;

/** The routes of a listener, each with the compiled value of each of its rules. */
interface ServedRoutes<T> {
  readonly routes: readonly Route[];
  readonly compiled: readonly (readonly T[])[];
  /** The index of each route, by its key. */
  readonly places: ReadonlyMap<string, number>;
}

/** Compiles snapshots one after the other, and keeps what is the same in the next one. */
export class RouteCompiler<T> {
  readonly #hosts: HostIndexer;
  /** The routes of each listener in the last snapshot, by its key. */
  #served: ReadonlyMap<string, ServedRoutes<T>> = new Map();

  /** @param pathRules how paths of requests are normalised. */
  constructor(pathRules: PathRules) {
    this.#hosts = new HostIndexer(new PreparedMatches(pathRules));
  }

  /** Compiles all binds of a snapshot, in slices, so that requests are served between them. */
  compile(binds: readonly Bind[], rules: RuleCompiler<T>, slices?: SliceOptions): Promise<CompiledBinds<T>> {
    return runInSlices(this.compileInSteps(binds, rules), slices);
  }

  /** As `compile`, in steps. */
  *compileInSteps(binds: readonly Bind[], rules: RuleCompiler<T>): Steps<CompiledBinds<T>> {
    const pace = new Pace(workPerStep);
    const listeners = binds.flatMap((bind) => bind.listeners);
    const indexed = yield* this.#hosts.index(listeners, pace);
    const indexedOf = new Map(listeners.map((listener, at) => [listener, indexed[at]]));
    const served = new Map<string, ServedRoutes<T>>();
    const compiler = new ListenerCompiler(rules, this.#served, pace);
    const compiled = new Map<Bind, { readonly index: RouteIndex<T> } | { readonly error: unknown }>();
    for (const bind of binds) {
      try {
        const table = new HostTable<CompiledListener<T>>();
        for (const listener of bind.listeners) {
          const hosts = indexedOf.get(listener);
          if (hosts === undefined) throw new Error(`listener ${listener.key} is not one of those that were indexed`);
          if ("error" in hosts) throw hosts.error;
          const routes = yield* compiler.compile(listener);
          served.set(listener.key, routes);
          table.add(listener.hostname, { listener, ...hosts, ...routes });
        }
        compiled.set(bind, { index: routeIndexOf(table) });
      } catch (error) {
        compiled.set(bind, { error });
      }
    }
    this.#served = served;
    return compiled;
  }
}

interface CompiledListener<T> extends ServedRoutes<T> {
  readonly listener: Listener;
  readonly hosts: HostTable<IndexedHost>;
}

function routeIndexOf<T>(listeners: HostTable<CompiledListener<T>>): RouteIndex<T> {
  return {
    find(head, budget = new WorkBudget(maxMatchUnits)) {
      const found = listeners.find(head.authority);
      if (found === undefined) return undefined;
      const request = new RequestReading(head, budget);
      let host = found.hosts.find(head.authority);
      for (; host !== undefined; host = found.hosts.findLessSpecific(host.hostname)) {
        const candidate = host.paths.find(host.matches, request);
        if (candidate === undefined) continue;
        const place = found.places.get(host.routes[candidate.route] ?? "") ?? -1;
        const route = found.routes[place];
        const rule = route?.rules[candidate.rule];
        // A host selects from the routes of its listener, and their rules are those that were indexed.
        if (route === undefined || rule === undefined) continue;
        const { listener } = found;
        const compiled = found.compiled[place]?.[candidate.rule] as T;
        const { match } = candidate;
        return { listener, route, rule, compiled, match, isQueryAmbiguous: request.isAmbiguous };
      }
      return undefined;
    },
    findListener: (authority) => listeners.find(authority)?.listener,
  };
}

class ListenerCompiler<T> {
  readonly #rules: RuleCompiler<T>;
  /** In the last snapshot. */
  readonly #before: ReadonlyMap<string, ServedRoutes<T>>;
  readonly #pace: Pace;
  /** By Gateway, then by the rules. The listeners of a Gateway have the same rules unless they differ in limits. */
  readonly #compiled = new Map<string, Map<Route["rules"], readonly T[]>>();

  constructor(rules: RuleCompiler<T>, before: ReadonlyMap<string, ServedRoutes<T>>, pace: Pace) {
    this.#rules = rules;
    this.#before = before;
    this.#pace = pace;
  }

  /** Compiles the rules of the routes of a listener. */
  *compile({ key, gateway, routes }: Listener): Steps<ServedRoutes<T>> {
    const before = this.#before.get(key);
    const placeBefore = placesBefore(before?.routes ?? [], routes);
    const compiled: (readonly T[])[] = [];
    for (const page of pagesOfRoutes(routes)) {
      const last = before && keptValues(before, page, placeBefore(compiled.length));
      if (last !== undefined && this.#rules.keeps?.(page) === true) {
        for (const values of last) compiled.push(values);
        if (this.#pace.endsStep(workPerKept * page.length)) yield;
      } else {
        for (const route of page) {
          compiled.push(
            yield* this.#compileOrKeep(gateway, route, before?.compiled[placeBefore(compiled.length) ?? -1]),
          );
        }
      }
    }
    return { routes, compiled, places: yield* this.#placesOf(routes, before) };
  }

  /** @param last the values of the route in the last snapshot; undefined if it had none. */
  *#compileOrKeep(gateway: ObjectName, route: Route, last: readonly T[] | undefined): Steps<readonly T[]> {
    return last !== undefined && this.#rules.keeps?.([route]) === true
      ? last
      : yield* this.#compileRules(gateway, route);
  }

  *#placesOf(routes: readonly Route[], before: ServedRoutes<T> | undefined): Steps<ServedRoutes<T>["places"]> {
    const isSamePlace = (route: Route, at: number) =>
      before?.routes[at] === route || before?.routes[at]?.key === route.key;
    if (before?.routes.length === routes.length && routes.every(isSamePlace)) return before.places;
    const places = new Map<string, number>();
    for (const [at, { key }] of routes.entries()) {
      places.set(key, at);
      if (this.#pace.endsStep(workPerKept)) yield;
    }
    return places;
  }

  *#compileRules(gateway: ObjectName, route: Route): Steps<readonly T[]> {
    const key = objectKey(gateway);
    const ofGateway = this.#compiled.get(key) ?? new Map<Route["rules"], readonly T[]>();
    this.#compiled.set(key, ofGateway);
    const existing = ofGateway.get(route.rules);
    if (existing !== undefined) return existing;
    const compiled: T[] = [];
    for (const rule of route.rules) {
      compiled.push(this.#rules.compile(gateway, route, rule));
      if (this.#pace.endsStep(workPerRule)) yield;
    }
    ofGateway.set(route.rules, compiled);
    return compiled;
  }
}

/** Returns the values of a page of routes, if the last snapshot had these routes from a place on. */
function keptValues<T>(
  { routes, compiled }: ServedRoutes<T>,
  page: readonly Route[],
  place: number | undefined,
): readonly (readonly T[])[] | undefined {
  if (place === undefined || !isAt(routes, place, page)) return undefined;
  return compiled.slice(place, place + page.length);
}

/**
 * Returns the index in an earlier list of the object at an index of a list; undefined for an object that is not in it.
 */
function placesBefore<Item>(before: readonly Item[], after: readonly Item[]): (at: number) => number | undefined {
  const { start: from, end } = commonEnds(before, after);
  const shift = before.length - after.length;
  const to = after.length - end;
  const between = new Map(before.slice(from, to + shift).map((item, at) => [item, from + at]));
  return (at) => {
    if (at < from) return at;
    const item = after[at];
    return at >= to || item === undefined ? at + shift : between.get(item);
  };
}
