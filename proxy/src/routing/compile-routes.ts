/**
 * Compiles the listeners of one socket address to an index, and finds in it the rule of a request by the precedence
 * that the Gateway API prescribes: listener by host, route by host, then the match (see `precedence.ts`).
 *
 * A request belongs to the most specific listener that its host matches and never falls to another one (HTTP listener
 * isolation, GEP-1713). Within the listener it does fall, from a route with a more specific host name none of whose
 * matches holds to one with a less specific host name.
 */
import { atOnce, inTurns, type Steps, type TurnOptions } from "@gatewayproxy/runtime/steps";
import type { Match } from "../ir/match.ts";
import type { Bind, Listener, Route, RouteRule } from "../ir/snapshot.ts";
import { WorkBudget } from "../regex/work-budget.ts";
import { compileConditions } from "./conditions.ts";
import { HostTable } from "./host-table.ts";
import { normalizeMatch } from "./normalize-match.ts";
import { Pace } from "./pace.ts";
import { type Candidate, type HostMatches, type PathIndex, PathIndexBuilder } from "./path-index.ts";
import { defaultPathRules, type PathRules } from "./path-rules.ts";
import { compareRoutes } from "./precedence.ts";
import { type RequestHead, RequestReading } from "./request-reading.ts";

export type { RequestHead } from "./request-reading.ts";

/** A rule at a listener. */
interface ServedRule<T> {
  readonly listener: Listener;
  readonly route: Route;
  readonly rule: RouteRule;
  /** What `compileRule` made of the rule. */
  readonly compiled: T;
}

/** Where a request belongs. */
export interface RouteMatch<T> extends ServedRule<T> {
  /** The match that held, its path normalised; `ReplacePrefixMatch` needs its prefix. */
  readonly match: Match;
  /**
   * Whether a query parameter that comes twice with different values was read to find it: a server that takes another of
   * the values could find another rule.
   */
  readonly isQueryAmbiguous: boolean;
}

export interface RouteIndex<T> {
  /**
   * `undefined`: no listener has the host, or no rule of the listener matches (404). Throws `BudgetExceeded` where
   * the search costs more than `budget` has; absent: `maxMatchUnits`.
   */
  find(head: RequestHead, budget?: WorkBudget): RouteMatch<T> | undefined;
  /** The listener that the request belongs to, whether or not a rule matches. */
  findListener(authority: string): Listener | undefined;
}

/** Makes what the caller wants to find with a rule; called once per rule and listener. */
export type CompileRule<T> = (listener: Listener, route: Route, rule: RouteRule) => T;

/**
 * What finding the rule of one request may cost, regular expressions included: about a millisecond. A path of 16 KiB that
 * a pattern reads to its end costs some 16,000 units; 5,000 matches on one path, with a header and a query parameter each
 * of which only the last holds, some 15,000.
 */
export const maxMatchUnits = 40_000;

/** Of listeners with equal hostnames the first serves; translation reports the others as conflicted. */
export function compileRoutes<T>(
  bind: Bind,
  compileRule: CompileRule<T>,
  pathRules: PathRules = defaultPathRules,
): RouteIndex<T> {
  return atOnce(compileInSteps(bind, { compileRule, pathRules }));
}

/** The same, a piece in each turn of the event loop, so that requests are served meanwhile. */
export function compileRoutesInTurns<T>(
  bind: Bind,
  compileRule: CompileRule<T>,
  pathRules: PathRules,
  turns?: TurnOptions,
): Promise<RouteIndex<T>> {
  return inTurns(compileInSteps(bind, { compileRule, pathRules }), turns);
}

/** In matches that are indexed: a tenth of a millisecond. */
const workPerStep = 100;
/** For compiling a rule, without its matches. */
const workPerRule = 10;

interface CompileContext<T> {
  readonly pace: Pace;
  readonly compileRule: CompileRule<T>;
  readonly pathRules: PathRules;
  /** By match as written: a route at several listeners has the same ones at each. */
  readonly prepared: Map<Match, PreparedMatch>;
}

type PreparedMatch = Pick<Candidate<unknown>, "match" | "conditions">;

function* compileInSteps<T>(bind: Bind, options: Omit<CompileContext<T>, "pace" | "prepared">): Steps<RouteIndex<T>> {
  const context = { ...options, pace: new Pace(workPerStep), prepared: new Map<Match, PreparedMatch>() };
  const listeners = new HostTable<CompiledListener<T>>();
  for (const listener of bind.listeners) listeners.add(listener.hostname, yield* compileListener(listener, context));
  return {
    find(head, budget = new WorkBudget(maxMatchUnits)) {
      const found = listeners.find(head.authority);
      if (found === undefined) return undefined;
      const request = new RequestReading(head, budget);
      for (let host = found.hosts.find(head.authority); host !== undefined; host = host.lessSpecific) {
        const candidate = found.paths.find(host.matches, request);
        if (candidate === undefined) continue;
        const { listener, route, rule, compiled } = candidate.result;
        return { listener, route, rule, compiled, match: candidate.match, isQueryAmbiguous: request.isAmbiguous };
      }
      return undefined;
    },
    findListener: (authority) => listeners.find(authority)?.listener,
  };
}

interface CompiledListener<T> {
  readonly listener: Listener;
  readonly paths: PathIndex<ServedRule<T>>;
  readonly hosts: HostTable<CompiledHost>;
}

/** One hostname of routes, and where to go on when none of its matches holds. */
interface CompiledHost {
  readonly matches: HostMatches;
  lessSpecific: CompiledHost | undefined;
}

function* compileListener<T>(listener: Listener, context: CompileContext<T>): Steps<CompiledListener<T>> {
  const routes = listener.routes.toSorted(compareRoutes);
  const builder = new PathIndexBuilder<ServedRule<T>>(context.pace);
  for (const [place, route] of routes.entries()) {
    for (const rule of route.rules) {
      const served = { listener, route, rule, compiled: context.compileRule(listener, route, rule) };
      for (const written of rule.matches) {
        const { match, conditions } = prepare(written, context);
        builder.add({ match, conditions, route: place, result: served });
      }
      if (context.pace.isOver(workPerRule + rule.matches.length)) yield;
    }
  }
  const paths = yield* builder.build();
  return { listener, paths, hosts: yield* compileHosts(routes, paths, context.pace) };
}

function prepare(
  written: Match,
  { pathRules, prepared }: Pick<CompileContext<unknown>, "pathRules" | "prepared">,
): PreparedMatch {
  const known = prepared.get(written);
  if (known !== undefined) return known;
  const match = normalizeMatch(written, pathRules);
  const made = { match, conditions: compileConditions(match) };
  prepared.set(written, made);
  return made;
}

function* compileHosts<T>(routes: readonly Route[], paths: PathIndex<T>, pace: Pace): Steps<HostTable<CompiledHost>> {
  /** Places of the routes, by hostname. */
  const byHostname = new Map<string | undefined, number[]>();
  for (const [place, route] of routes.entries()) {
    for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
      const sharing = byHostname.get(hostname);
      if (sharing === undefined) byHostname.set(hostname, [place]);
      else sharing.push(place);
    }
    if (pace.isOver(1)) yield;
  }
  // Hostnames of the same routes share one list.
  const sets = new Map<string, { readonly places: readonly number[]; readonly hostnames: (string | undefined)[] }>();
  for (const [hostname, places] of byHostname) {
    const key = places.join(" ");
    const set = sets.get(key);
    if (set === undefined) sets.set(key, { places, hostnames: [hostname] });
    else set.hostnames.push(hostname);
    if (pace.isOver(1 + places.length / 4)) yield;
  }

  const each = [...sets.values()];
  const selected = yield* paths.select(
    each.map(({ places }) => places),
    pace,
  );
  const table = new HostTable<CompiledHost>();
  const hosts = new Map<string | undefined, CompiledHost>();
  for (const [at, matches] of selected.entries()) {
    for (const hostname of each[at]?.hostnames ?? []) {
      const host = { matches, lessSpecific: undefined };
      hosts.set(hostname, host);
      table.add(hostname, host);
      if (pace.isOver(1)) yield;
    }
  }
  // Which hostname comes next does not depend on the request, so it is found once, here.
  for (const [hostname, host] of hosts) {
    host.lessSpecific = table.findLessSpecific(hostname);
    if (pace.isOver(1)) yield;
  }
  return table;
}
