/**
 * Compiles the listeners of one socket address to an index, and finds in it the rule of a request by the precedence
 * that the Gateway API prescribes: listener by host, route by host, then the match (see `precedence.ts`).
 *
 * A request belongs to the most specific listener that its host matches and never falls to another one (HTTP listener
 * isolation, GEP-1713). Within the listener it does fall, from a route with a more specific host name none of whose
 * matches holds to one with a less specific host name.
 */
import { atOnce, inTurns, type Steps } from "@gatewayproxy/runtime/steps";
import type { Match } from "../ir/match.ts";
import type { Bind, Listener, Route, RouteRule } from "../ir/snapshot.ts";
import { WorkBudget } from "../regex/work-budget.ts";
import { compileConditions } from "./conditions.ts";
import { HostTable } from "./host-table.ts";
import { normalizePath } from "./normalize-path.ts";
import { type Candidate, PathIndex } from "./path-index.ts";
import { defaultPathRules, type PathRules } from "./path-rules.ts";
import { comparePrecedence, type RankedMatch } from "./precedence.ts";
import { type RequestHead, RequestReading } from "./request-reading.ts";

export type { RequestHead } from "./request-reading.ts";

/** Where a request belongs. One object per match, made at compile time: finding it allocates nothing. */
export interface RouteMatch<T> {
  readonly listener: Listener;
  readonly route: Route;
  readonly rule: RouteRule;
  /** The match that held, its path normalised; `ReplacePrefixMatch` needs its prefix. */
  readonly match: Match;
  /** What `compileRule` made of the rule. */
  readonly compiled: T;
  /** Query parameters that some match of the listener reads, so the choice of the rule may depend on them. */
  readonly queryNames: ReadonlySet<string>;
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

/** The same in turns of the event loop, so that requests are served meanwhile. */
export function compileRoutesInTurns<T>(
  bind: Bind,
  compileRule: CompileRule<T>,
  pathRules: PathRules,
): Promise<RouteIndex<T>> {
  return inTurns(compileInSteps(bind, { compileRule, pathRules }), { sliceMs: 0 });
}

/** Rules that are compiled, and matches that are indexed, in one step; some milliseconds. */
const itemsPerStep = 1_000;

/** Counts what has been done since the last step. */
class Pace {
  #items = 0;

  /** Whether it is time for others. */
  isOver(items: number): boolean {
    this.#items += items;
    if (this.#items < itemsPerStep) return false;
    this.#items = 0;
    return true;
  }
}

function* compileInSteps<T>(bind: Bind, options: Omit<CompileContext<T>, "pace">): Steps<RouteIndex<T>> {
  const context = { ...options, pace: new Pace() };
  const listeners = new HostTable<CompiledListener<T>>();
  for (const listener of bind.listeners) {
    listeners.add(listener.hostname, { listener, hosts: yield* compileHosts(listener, context) });
  }
  return {
    find(head, budget = new WorkBudget(maxMatchUnits)) {
      const request = new RequestReading(head, budget);
      let host = listeners.find(head.authority)?.hosts.find(head.authority);
      for (; host !== undefined; host = host.lessSpecific) {
        const found = host.paths.find(request);
        if (found !== undefined) return found;
      }
      return undefined;
    },
    findListener: (authority) => listeners.find(authority)?.listener,
  };
}

interface CompiledListener<T> {
  readonly listener: Listener;
  readonly hosts: HostTable<CompiledHost<T>>;
}

/** The matches of one route hostname, and where to go on when none of them holds. */
interface CompiledHost<T> {
  readonly paths: PathIndex<RouteMatch<T>>;
  lessSpecific: CompiledHost<T> | undefined;
}

interface RankedResult<T> extends RankedMatch {
  readonly candidate: Candidate<RouteMatch<T>>;
}

interface CompileContext<T> {
  readonly pace: Pace;
  readonly compileRule: CompileRule<T>;
  readonly pathRules: PathRules;
}

function* compileHosts<T>(listener: Listener, context: CompileContext<T>): Steps<HostTable<CompiledHost<T>>> {
  /** Places of the routes, by hostname. */
  const byHostname = new Map<string | undefined, number[]>();
  const queryNames = queryNamesOf(listener);
  const ranked: (readonly RankedResult<T>[])[] = [];
  for (const [place, route] of listener.routes.entries()) {
    ranked.push(yield* rankMatches(listener, route, queryNames, context));
    for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
      const sharing = byHostname.get(hostname);
      if (sharing === undefined) byHostname.set(hostname, [place]);
      else sharing.push(place);
    }
  }

  const table = new HostTable<CompiledHost<T>>();
  const hosts = new Map<string | undefined, CompiledHost<T>>();
  // Hostnames of the same routes share one index.
  const indexes = new Map<string, PathIndex<RouteMatch<T>>>();
  for (const [hostname, places] of byHostname) {
    const key = places.join(" ");
    let paths = indexes.get(key);
    if (paths === undefined) {
      paths = yield* indexMatches(
        places.flatMap((place) => ranked[place] ?? []),
        context,
      );
      indexes.set(key, paths);
    }
    const host = { paths, lessSpecific: undefined };
    hosts.set(hostname, host);
    table.add(hostname, host);
  }
  // Which hostname comes next does not depend on the request, so it is found once, here.
  for (const [hostname, host] of hosts) host.lessSpecific = table.findLessSpecific(hostname);
  return table;
}

function* indexMatches<T>(
  ranked: readonly RankedResult<T>[],
  { pace }: CompileContext<T>,
): Steps<PathIndex<RouteMatch<T>>> {
  const paths = new PathIndex<RouteMatch<T>>();
  for (const { match, candidate } of ranked.toSorted(comparePrecedence)) {
    paths.add(match.path, candidate);
    if (pace.isOver(1)) yield;
  }
  return paths;
}

function queryNamesOf({ routes }: Listener): ReadonlySet<string> {
  const matches = routes.flatMap(({ rules }) => rules.flatMap((rule) => rule.matches));
  return new Set(matches.flatMap(({ query }) => query.map(({ name }) => name)));
}

function* rankMatches<T>(
  listener: Listener,
  route: Route,
  queryNames: ReadonlySet<string>,
  { compileRule, pathRules, pace }: CompileContext<T>,
): Steps<readonly RankedResult<T>[]> {
  const ranked: RankedResult<T>[] = [];
  for (const [ruleIndex, rule] of route.rules.entries()) {
    const compiled = compileRule(listener, route, rule);
    for (const [matchIndex, written] of rule.matches.entries()) {
      const match = normalizeMatch(written, pathRules);
      const result = { listener, route, rule, match, compiled, queryNames };
      const candidate = { conditions: compileConditions(match), result };
      ranked.push({ match, route, ruleIndex, matchIndex, candidate });
    }
    // A rule takes about as long as ten matches.
    if (pace.isOver(10 + rule.matches.length)) yield;
  }
  return ranked;
}

/** Gives a path value the form in which request paths arrive, so that `/caf%c3%a9` and `/caf%C3%A9` are one. */
function normalizeMatch(match: Match, pathRules: PathRules): Match {
  const { kind, value } = match.path;
  if (kind === "RegularExpression") return match;
  const normalized = normalizePath(value, pathRules) ?? value;
  const isSlashed = kind === "PathPrefix" && normalized.length > 1 && normalized.endsWith("/");
  return { ...match, path: { kind, value: isSlashed ? normalized.slice(0, -1) : normalized } };
}
