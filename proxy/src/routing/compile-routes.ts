/**
 * Compiles the listeners of each socket address to an index, and finds in it the rule of a request by the precedence
 * that the Gateway API prescribes: listener by host, route by host, then the match (see `precedence.ts`). All of a
 * snapshot is compiled together, since what listeners have in common is held once (`shared-routes.ts`).
 *
 * A request belongs to the most specific listener that its host matches and never falls to another one (HTTP listener
 * isolation, GEP-1713). Within the listener it does fall, from a route with a more specific host name none of whose
 * matches holds to one with a less specific host name.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { runToEnd, runInSlices, type Steps, type SliceOptions } from "@gatewayproxy/runtime/steps";
import type { Match } from "../ir/match.ts";
import type { Bind, Listener, ObjectName, Route, RouteRule } from "../ir/snapshot.ts";
import { WorkBudget } from "../regex/work-budget.ts";
import { HostTable } from "./host-table.ts";
import { Pace } from "./pace.ts";
import type { MatchSet, PathIndex } from "./path-index.ts";
import { defaultPathRules, type PathRules } from "./path-rules.ts";
import { type RequestHead, RequestReading } from "./request-reading.ts";
import { PreparedMatches, RouteSets, SharedRoutes } from "./shared-routes.ts";

export type { RequestHead } from "./request-reading.ts";

/** The rule that a request matches. */
export interface RouteMatch<T> {
  readonly listener: Listener;
  readonly route: Route;
  readonly rule: RouteRule;
  /** The result of `compileRule`. */
  readonly compiled: T;
  /** The match that held, its path normalised; `ReplacePrefixMatch` needs its prefix. */
  readonly match: Match;
  /**
   * Whether a query parameter that comes twice with different values was read to find it: a server that takes another of
   * the values could find another rule.
   */
  readonly isQueryAmbiguous: boolean;
}

/** The rules of one socket address. `T` is the compiled form of a rule. */
export interface RouteIndex<T> {
  /**
   * `undefined`: no listener has the host, or no rule of the listener matches (404). Throws `BudgetExceeded` where
   * the search costs more than `budget` has; absent: `maxMatchUnits`.
   */
  find(head: RequestHead, budget?: WorkBudget): RouteMatch<T> | undefined;
  /** The listener that the request belongs to, whether or not a rule matches. */
  findListener(authority: string): Listener | undefined;
}

/** Creates the value that `find` returns for a rule; called once for each Gateway and list of rules. */
export type CompileRule<T> = (gateway: ObjectName, route: Route, rule: RouteRule) => T;

/**
 * Maximum work to find the rule of one request, regular expressions included: about a millisecond (docs/adr/0007). A
 * path of 16 KiB that a pattern reads to its end costs some 16,000 units; 5,000 matches on one path, with a header and
 * a query parameter each of which only the last holds, some 15,000.
 */
export const maxMatchUnits = 40_000;

/** Of listeners with equal hostnames the first serves; translation reports the others as conflicted. */
export function compileRoutes<T>(
  bind: Bind,
  compileRule: CompileRule<T>,
  pathRules: PathRules = defaultPathRules,
): RouteIndex<T> {
  return indexOf(runToEnd(compileInSteps([bind], compileRule, new PreparedMatches(pathRules))), bind);
}

/** The result for each bind: one that cannot be compiled does not affect the others. */
export type CompiledBinds<T> = ReadonlyMap<Bind, { readonly index: RouteIndex<T> } | { readonly fault: unknown }>;

/** @throws the reason why the bind could not be compiled. */
export function indexOf<T>(compiled: CompiledBinds<T>, bind: Bind): RouteIndex<T> {
  const found = compiled.get(bind);
  if (found === undefined) throw new Error(`port ${bind.port} is not one of those that were compiled`);
  if ("fault" in found) throw found.fault;
  return found.index;
}

/** The same for all binds of a snapshot, a piece in each turn of the event loop, so that requests are served meanwhile. */
export function compileRoutesInTurns<T>(
  binds: readonly Bind[],
  compileRule: CompileRule<T>,
  prepared: PreparedMatches,
  turns?: SliceOptions,
): Promise<CompiledBinds<T>> {
  return runInSlices(compileInSteps(binds, compileRule, prepared), turns);
}

/** Work between two steps, in matches that are indexed. */
const workPerStep = 100;
/** For compiling a rule. */
const workPerRule = 10;

function* compileInSteps<T>(
  binds: readonly Bind[],
  compileRule: CompileRule<T>,
  prepared: PreparedMatches,
): Steps<CompiledBinds<T>> {
  const pace = new Pace(workPerStep);
  const shared = yield* SharedRoutes.of(binds, prepared, pace);
  const compiler = new ListenerCompiler(shared, compileRule, pace);
  const drafts = new Map<Bind, readonly ListenerDraft<T>[] | { readonly fault: unknown }>();
  for (const bind of binds) {
    try {
      const listeners: ListenerDraft<T>[] = [];
      for (const listener of bind.listeners) listeners.push(yield* compiler.draft(listener));
      drafts.set(bind, listeners);
    } catch (fault) {
      drafts.set(bind, { fault });
    }
  }
  // All sets of routes are known now, and the matches of each are selected once.
  const selected = yield* compiler.sets.select(shared.index, pace);
  const compiled = new Map<Bind, { readonly index: RouteIndex<T> } | { readonly fault: unknown }>();
  for (const [bind, listeners] of drafts) {
    if ("fault" in listeners) {
      compiled.set(bind, listeners);
      continue;
    }
    const table = new HostTable<CompiledListener<T>>();
    for (const { listener, routes, hostnames } of listeners) {
      table.add(listener.hostname, { listener, routes, hosts: yield* hostTableOf(hostnames, selected, pace) });
    }
    compiled.set(bind, { index: routeIndexOf(table, shared.index) });
  }
  return compiled;
}

function routeIndexOf<T>(listeners: HostTable<CompiledListener<T>>, paths: PathIndex): RouteIndex<T> {
  return {
    find(head, budget = new WorkBudget(maxMatchUnits)) {
      const found = listeners.find(head.authority);
      if (found === undefined) return undefined;
      const request = new RequestReading(head, budget);
      for (let host = found.hosts.find(head.authority); host !== undefined; host = host.lessSpecific) {
        const candidate = paths.find(host.matches, request);
        if (candidate === undefined) continue;
        const served = found.routes.get(candidate.route);
        const rule = served?.route.rules[candidate.rule];
        // A host selects from the routes of its listener, and their rules are those that were indexed.
        if (served === undefined || rule === undefined) continue;
        const { listener } = found;
        const compiled = served.compiled[candidate.rule] as T;
        const { match } = candidate;
        return { listener, route: served.route, rule, compiled, match, isQueryAmbiguous: request.isAmbiguous };
      }
      return undefined;
    },
    findListener: (authority) => listeners.find(authority)?.listener,
  };
}

/** A route at a listener. */
interface ServedRoute<T> {
  readonly route: Route;
  /** The compiled value of each of its rules. */
  readonly compiled: readonly T[];
}

interface CompiledListener<T> {
  readonly listener: Listener;
  /** By the place of the route among all. */
  readonly routes: ReadonlyMap<number, ServedRoute<T>>;
  readonly hosts: HostTable<CompiledHost>;
}

/** One hostname of routes, and where to go on when none of its matches holds. */
interface CompiledHost {
  readonly matches: MatchSet;
  lessSpecific: CompiledHost | undefined;
}

/** A listener of which the sets of routes are known, but not their matches. */
interface ListenerDraft<T> extends Pick<CompiledListener<T>, "listener" | "routes"> {
  /** The number of the set of routes of each hostname. */
  readonly hostnames: ReadonlyMap<string | undefined, number>;
}

class ListenerCompiler<T> {
  readonly sets = new RouteSets();
  readonly #shared: SharedRoutes;
  readonly #compileRule: CompileRule<T>;
  readonly #pace: Pace;
  /** By Gateway, then by the rules: listeners of one Gateway have the same ones unless they differ in limits. */
  readonly #compiled = new Map<string, Map<Route["rules"], readonly T[]>>();

  constructor(shared: SharedRoutes, compileRule: CompileRule<T>, pace: Pace) {
    this.#shared = shared;
    this.#compileRule = compileRule;
    this.#pace = pace;
  }

  *draft(listener: Listener): Steps<ListenerDraft<T>> {
    const routes = new Map<number, ServedRoute<T>>();
    for (const route of listener.routes) {
      routes.set(this.#shared.placeOf(route), { route, compiled: yield* this.#compile(listener, route) });
      if (this.#pace.isOver(1)) yield;
    }
    return { listener, routes, hostnames: yield* this.#setsByHostname(routes) };
  }

  *#compile({ gateway }: Listener, route: Route): Steps<readonly T[]> {
    const key = objectKey(gateway);
    const ofGateway = this.#compiled.get(key) ?? new Map<Route["rules"], readonly T[]>();
    this.#compiled.set(key, ofGateway);
    const known = ofGateway.get(route.rules);
    if (known !== undefined) return known;
    const compiled: T[] = [];
    for (const rule of route.rules) {
      compiled.push(this.#compileRule(gateway, route, rule));
      if (this.#pace.isOver(workPerRule)) yield;
    }
    ofGateway.set(route.rules, compiled);
    return compiled;
  }

  *#setsByHostname(routes: ReadonlyMap<number, ServedRoute<T>>): Steps<ReadonlyMap<string | undefined, number>> {
    const byHostname = new Map<string | undefined, number[]>();
    for (const [place, { route }] of routes) {
      for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
        const sharing = byHostname.get(hostname);
        if (sharing === undefined) byHostname.set(hostname, [place]);
        else sharing.push(place);
      }
      if (this.#pace.isOver(1)) yield;
    }
    const numbers = new Map<string | undefined, number>();
    for (const [hostname, places] of byHostname) {
      numbers.set(hostname, this.sets.numberOf(places.sort((a, b) => a - b)));
      if (this.#pace.isOver(1 + places.length / 4)) yield;
    }
    return numbers;
  }
}

function* hostTableOf(
  hostnames: ReadonlyMap<string | undefined, number>,
  selected: readonly MatchSet[],
  pace: Pace,
): Steps<HostTable<CompiledHost>> {
  const table = new HostTable<CompiledHost>();
  const hosts = new Map<string | undefined, CompiledHost>();
  for (const [hostname, set] of hostnames) {
    const matches = selected[set];
    if (matches === undefined) continue;
    const host = { matches, lessSpecific: undefined };
    hosts.set(hostname, host);
    table.add(hostname, host);
    if (pace.isOver(1)) yield;
  }
  // Which hostname comes next does not depend on the request, so it is found once, here.
  for (const [hostname, host] of hosts) {
    host.lessSpecific = table.findLessSpecific(hostname);
    if (pace.isOver(1)) yield;
  }
  return table;
}
