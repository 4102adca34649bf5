/**
 * Compiles the listeners of each socket address to an index, and finds in it the rule of a request by the precedence
 * that the Gateway API prescribes: listener by host, route by host, then the match (see `precedence.ts`). All listeners
 * of a snapshot are compiled together, because routes and matches that several of them share are stored once
 * (`shared-routes.ts`).
 *
 * A request belongs to the most specific listener that its host matches, and never to another one (HTTP listener
 * isolation, GEP-1713). Within the listener, if none of the matches at the most specific host name holds, the request
 * goes to the routes of the next less specific host name.
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
   * if the search costs more than `budget` (`maxMatchUnits` if absent), and `ModelUnread` if the rule depends on the model and
   * the head has none.
   */
  find(head: RequestHead, budget?: WorkBudget): RouteMatch<T> | undefined;
  /** Returns the listener that the request belongs to, whether or not a rule matches. */
  findListener(authority: string): Listener | undefined;
}

/** Creates the value that `find` returns for a rule; called once for each Gateway and list of rules. */
export type CompileRule<T> = (gateway: ObjectName, route: Route, rule: RouteRule) => T;

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
  compileRule: CompileRule<T>,
  pathRules: PathRules = defaultPathRules,
): RouteIndex<T> {
  return indexOf(runToEnd(compileInSteps([bind], compileRule, new PreparedMatches(pathRules))), bind);
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

/** Compiles all binds of a snapshot, in slices, so that requests are served between them. */
export function compileRoutesInSlices<T>(
  binds: readonly Bind[],
  compileRule: CompileRule<T>,
  prepared: PreparedMatches,
  slices?: SliceOptions,
): Promise<CompiledBinds<T>> {
  return runInSlices(compileInSteps(binds, compileRule, prepared), slices);
}

/** Work between two steps, in matches that are indexed. */
const workPerStep = 100;
/** Work to compile one rule, in the same unit. */
const workPerRule = 10;

function* compileInSteps<T>(
  binds: readonly Bind[],
  compileRule: CompileRule<T>,
  prepared: PreparedMatches,
): Steps<CompiledBinds<T>> {
  const pace = new Pace(workPerStep);
  const shared = yield* SharedRoutes.of(binds, prepared, pace);
  const compiler = new ListenerCompiler(shared, compileRule, pace);
  const drafts = new Map<Bind, readonly ListenerDraft<T>[] | { readonly error: unknown }>();
  for (const bind of binds) {
    try {
      const listeners: ListenerDraft<T>[] = [];
      for (const listener of bind.listeners) listeners.push(yield* compiler.draft(listener));
      drafts.set(bind, listeners);
    } catch (error) {
      drafts.set(bind, { error });
    }
  }
  // All sets of routes are complete here, so the matches of each set are selected once.
  const selected = yield* compiler.sets.select(shared.index, pace);
  const compiled = new Map<Bind, { readonly index: RouteIndex<T> } | { readonly error: unknown }>();
  for (const [bind, listeners] of drafts) {
    if ("error" in listeners) {
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
        const servedRoute = found.routes.get(candidate.route);
        const rule = servedRoute?.route.rules[candidate.rule];
        // A host selects from the routes of its listener, and their rules are those that were indexed.
        if (servedRoute === undefined || rule === undefined) continue;
        const { listener } = found;
        const compiled = servedRoute.compiled[candidate.rule] as T;
        const { match } = candidate;
        return { listener, route: servedRoute.route, rule, compiled, match, isQueryAmbiguous: request.isAmbiguous };
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
  /** By the position of the route among all routes. */
  readonly routes: ReadonlyMap<number, ServedRoute<T>>;
  readonly hosts: HostTable<CompiledHost>;
}

/** The matches at one hostname, and the next less specific hostname, to try if none of them holds. */
interface CompiledHost {
  readonly matches: MatchSet;
  lessSpecific: CompiledHost | undefined;
}

/** A listener whose sets of routes are complete, but without the matches of these sets. */
interface ListenerDraft<T> extends Pick<CompiledListener<T>, "listener" | "routes"> {
  /** The number of the set of routes of each hostname. */
  readonly hostnames: ReadonlyMap<string | undefined, number>;
}

class ListenerCompiler<T> {
  readonly sets = new RouteSets();
  readonly #shared: SharedRoutes;
  readonly #compileRule: CompileRule<T>;
  readonly #pace: Pace;
  /** By Gateway, then by the rules. The listeners of a Gateway have the same rules unless they differ in limits. */
  readonly #compiled = new Map<string, Map<Route["rules"], readonly T[]>>();

  constructor(shared: SharedRoutes, compileRule: CompileRule<T>, pace: Pace) {
    this.#shared = shared;
    this.#compileRule = compileRule;
    this.#pace = pace;
  }

  *draft(listener: Listener): Steps<ListenerDraft<T>> {
    const routes = new Map<number, ServedRoute<T>>();
    for (const route of listener.routes) {
      routes.set(this.#shared.positionOf(route), { route, compiled: yield* this.#compile(listener, route) });
      if (this.#pace.endsStep(1)) yield;
    }
    return { listener, routes, hostnames: yield* this.#setsByHostname(routes) };
  }

  *#compile({ gateway }: Listener, route: Route): Steps<readonly T[]> {
    const key = objectKey(gateway);
    const ofGateway = this.#compiled.get(key) ?? new Map<Route["rules"], readonly T[]>();
    this.#compiled.set(key, ofGateway);
    const existing = ofGateway.get(route.rules);
    if (existing !== undefined) return existing;
    const compiled: T[] = [];
    for (const rule of route.rules) {
      compiled.push(this.#compileRule(gateway, route, rule));
      if (this.#pace.endsStep(workPerRule)) yield;
    }
    ofGateway.set(route.rules, compiled);
    return compiled;
  }

  *#setsByHostname(routes: ReadonlyMap<number, ServedRoute<T>>): Steps<ReadonlyMap<string | undefined, number>> {
    const byHostname = new Map<string | undefined, number[]>();
    for (const [position, { route }] of routes) {
      for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
        const positionsOfHostname = byHostname.get(hostname);
        if (positionsOfHostname === undefined) byHostname.set(hostname, [position]);
        else positionsOfHostname.push(position);
      }
      if (this.#pace.endsStep(1)) yield;
    }
    const numbers = new Map<string | undefined, number>();
    for (const [hostname, positions] of byHostname) {
      numbers.set(hostname, this.sets.numberOf(positions.sort((a, b) => a - b)));
      if (this.#pace.endsStep(1 + positions.length / 4)) yield;
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
    if (pace.endsStep(1)) yield;
  }
  // The next less specific hostname does not depend on the request, so it is found once, here.
  for (const [hostname, host] of hosts) {
    host.lessSpecific = table.findLessSpecific(hostname);
    if (pace.endsStep(1)) yield;
  }
  return table;
}
