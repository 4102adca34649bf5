/**
 * Finds rules that no request can reach, or that lose requests to a rule of equal precedence. The order is that of
 * `precedence.ts`; hosts are compared as `host-table.ts` does.
 *
 * Within one hostname, a stronger match that covers another one wholly is identical to it: whatever makes a match
 * stronger (a longer path, a method, one more header) also makes it narrower. So it suffices to look for equal texts,
 * which takes linear time. Besides these there are matches of equal precedence with different headers or query parameters
 * (`overlaps.ts`), and hostnames that outrank others on a listener that has no other hosts.
 *
 * Regular expressions are equal where their texts are. So what is reported as unreachable is, and a rule that only another
 * expression covers is not reported.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Match } from "../ir/match.ts";
import type { Listener, Route } from "../ir/snapshot.ts";
import { HostTable } from "./host-table.ts";
import { type Condition, identityOf, type MatchEntry, MatchReader } from "./match-entry.ts";
import { OverlapIndex, type PlacedEntry, subsetsOf, together } from "./overlaps.ts";
import { Pace } from "./pace.ts";
import type { PathRules } from "./path-rules.ts";
import { compareRoutes, decisionBetween } from "./precedence.ts";

/** A route as a listener has it. */
export interface ConflictRoute extends Pick<Route, "key" | "creationTimestamp" | "hostnames"> {
  readonly rules: readonly { readonly matches: readonly Match[] }[];
}

export interface ConflictListener extends Pick<Listener, "key" | "hostname"> {
  /** Names of the socket addresses that it is served at. Listeners of one address share its requests by hostname. */
  readonly sockets: readonly string[];
  readonly routes: readonly ConflictRoute[];
}

/** Requests that a rule does not get at one listener, and who gets them. */
export interface Conflict {
  /** Key of the listener. */
  readonly listener: string;
  /** Hosts of the requests; absent: all of the listener. */
  readonly hostname?: string;
  /** Place of the match in its rule, from 0; absent: all of them. */
  readonly match?: number;
  readonly winner: Winner;
  readonly decidedBy: Decision;
  /** Whole: all requests of the match at these hosts. Overlap: those that the winner's match holds for, too. */
  readonly extent: "Whole" | "Overlap";
}

/**
 * What puts the winner first: another listener's or its own more specific hostname, its age, its name, or its place among
 * the rules of one route. No other step of the order of precedence can decide a conflict.
 */
export type Decision = "Listener" | "Hostname" | "Age" | "Name" | "RuleOrder";

/** A rule, by its place in its route, or another listener that has the hosts. */
export type Winner =
  | { readonly kind: "rule"; readonly route: string; readonly rule: number }
  | { readonly kind: "listener"; readonly listener: string };

/** How a rule fares at one listener. */
export interface RuleReach {
  /** False: no request can reach the rule there. */
  readonly isReachable: boolean;
  /** Each winner once, at most `maxWinners` of them. */
  readonly conflicts: readonly Conflict[];
  /** How many winners are not among them. */
  readonly leftOut: number;
}

export interface FoundConflicts {
  /** By key of the listener, then of the route: one for each of its rules. Without the routes that have no conflict. */
  readonly byListener: ReadonlyMap<string, ReadonlyMap<string, readonly RuleReach[]>>;
  /** Hostnames, over all listeners, whose routes were not compared because that would take too long. */
  readonly unexamined: number;
}

/** Of one rule at one listener. */
export const maxWinners = 4;

/**
 * Look-ups that are made beyond one for each match and hostname. An index of all matches at all hostnames could take 16
 * times what the routes' texts do.
 */
const spareLookUps = 50_000;

/** In routes, hostnames and rules that are gone through; well below a millisecond. */
const workPerStep = 200;

/** @param pathRules how the paths of requests are normalised. */
export function* findRouteConflicts(
  listeners: readonly ConflictListener[],
  pathRules: PathRules,
): Steps<FoundConflicts> {
  const pace = new Pace(workPerStep);
  const analyses = yield* analysesOf(listeners, pathRules, pace);
  const meter = new Meter(spareLookUps + analyses.reduce((sum, { inputSize }) => sum + inputSize, 0));
  let unexamined = 0;
  for (const { analysis, group } of yield* cheapestFirst(analyses, pace)) {
    if (meter.spend(group.cost)) yield* analysis.examine(group, meter);
    else unexamined += group.hostnames;
    if (pace.isOver(1)) yield;
  }
  const byListener = new Map<string, ReadonlyMap<string, readonly RuleReach[]>>();
  for (const analysis of analyses) {
    const routes = yield* analysis.results();
    if (routes.size > 0) byListener.set(analysis.listener.key, routes);
    yield;
  }
  return { byListener, unexamined };
}

interface PlacedGroup {
  readonly analysis: ListenerAnalysis;
  readonly group: Group;
}

/** Small groups first: who declares few hostnames is served before who declares many. */
function* cheapestFirst(analyses: readonly ListenerAnalysis[], pace: Pace): Steps<Iterable<PlacedGroup>> {
  const byCost = new Map<number, PlacedGroup[]>();
  for (const analysis of analyses) {
    for (const group of analysis.groups) {
      const equal = byCost.get(group.cost);
      if (equal === undefined) byCost.set(group.cost, [{ analysis, group }]);
      else equal.push({ analysis, group });
      if (pace.isOver(1)) yield;
    }
  }
  const costs = [...byCost.keys()].sort((a, b) => a - b);
  return costs.flatMap((cost) => byCost.get(cost) ?? []);
}

class Meter {
  #left: number;

  constructor(left: number) {
    this.#left = left;
  }

  /** @returns false, and takes nothing, where there is not so much left. */
  spend(units: number): boolean {
    if (units > this.#left) return false;
    this.#left -= units;
    return true;
  }
}

function* analysesOf(
  listeners: readonly ConflictListener[],
  pathRules: PathRules,
  pace: Pace,
): Steps<readonly ListenerAnalysis[]> {
  const sockets = new Map<string, HostTable<ConflictListener>>();
  for (const listener of listeners) {
    for (const socket of listener.sockets) {
      const table = sockets.get(socket) ?? new HostTable();
      table.add(listener.hostname, listener);
      sockets.set(socket, table);
    }
  }
  const routeKeys = new Map<string, ReadonlySet<string>>();
  for (const { key, routes } of listeners) {
    routeKeys.set(key, new Set(routes.map((route) => route.key)));
    yield;
  }
  const reader = new MatchReader(pathRules);
  // A route has the same rules at each of its listeners.
  const known = new Map<ConflictRoute["rules"], readonly MatchEntry[]>();
  for (const { rules } of listeners.flatMap(({ routes }) => routes)) {
    if (!known.has(rules)) known.set(rules, reader.read(rules));
    yield;
  }
  const entriesOf = ({ rules }: ConflictRoute): readonly MatchEntry[] => known.get(rules) ?? [];
  const analyses: ListenerAnalysis[] = [];
  for (const listener of listeners) {
    const tables = listener.sockets.flatMap((socket) => sockets.get(socket) ?? []);
    /** The listener that has all requests for a hostname instead; undefined where this one gets some somewhere. */
    const takerOf = (hostname: string | undefined): ConflictListener | undefined => {
      if (hostname === undefined) return undefined;
      const takers = tables.map((table) => table.find(hostname));
      return takers.includes(listener) ? undefined : takers[0];
    };
    const isServedAt = (route: ConflictRoute, other: ConflictListener): boolean => {
      return routeKeys.get(other.key)?.has(route.key) === true;
    };
    analyses.push(yield* analysisOf(listener, { takerOf, isServedAt, entriesOf, reader, pace }));
    yield;
  }
  return analyses;
}

interface Surroundings {
  readonly takerOf: (hostname: string | undefined) => ConflictListener | undefined;
  readonly isServedAt: (route: ConflictRoute, listener: ConflictListener) => boolean;
  readonly entriesOf: (route: ConflictRoute) => readonly MatchEntry[];
  readonly reader: MatchReader;
  readonly pace: Pace;
}

/** Routes that compete for the same hosts, or that lose them to the same listener. */
interface Group {
  /** Look-ups for comparing all with all; where a listener takes the hosts, one for each route. */
  readonly cost: number;
  readonly hostnames: number;
  /** The listener that has all requests for the hosts instead. Then there is one tier, of routes that it does not serve. */
  readonly taker: ConflictListener | undefined;
  /** The most specific hostname first. More than one only where all of them cover the one hostname of the listener. */
  readonly tiers: readonly Tier[];
}

interface Tier {
  readonly hostname: string | undefined;
  /** Places of the routes in the order of precedence. */
  readonly routes: readonly number[];
}

/** What a rule has lost so far to other rules. */
interface Losses {
  /** Matches, each once per group. */
  count: number;
  readonly byWinner: Map<string, Conflict>;
  readonly leftOut: Set<string>;
}

/** What a route has lost to other listeners, with all of its rules. */
interface LostHosts {
  /** Groups. */
  count: number;
  /** By key of the other listener; at most `maxWinners`. */
  readonly byTaker: Map<string, Conflict>;
  readonly leftOut: Set<string>;
}

function* analysisOf(listener: ConflictListener, surroundings: Surroundings): Steps<ListenerAnalysis> {
  const { entriesOf, reader, pace } = surroundings;
  const routes = listener.routes.toSorted(compareRoutes);
  const entries: (readonly MatchEntry[])[] = [];
  let inputSize = 0;
  for (const route of routes) {
    const own = entriesOf(route);
    entries.push(own);
    inputSize += route.hostnames.length + own.length;
    if (pace.isOver(1)) yield;
  }
  const groups = yield* groupsOf(listener, { routes, entries }, surroundings);
  const groupCounts = routes.map(() => 0);
  for (const { tiers } of groups) {
    for (const place of tiers.flatMap((tier) => tier.routes)) {
      groupCounts[place] = (groupCounts[place] ?? 0) + 1;
      if (pace.isOver(1)) yield;
    }
  }
  return new ListenerAnalysis({ listener, routes, entries, inputSize, groups, groupCounts, reader, pace });
}

function* groupsOf(
  listener: ConflictListener,
  { routes, entries }: Pick<AnalysisParts, "routes" | "entries">,
  { takerOf, isServedAt, pace }: Surroundings,
): Steps<readonly Group[]> {
  const { shared, own } = yield* tiersOf(listener, routes, pace);
  // Hostnames of the same routes are compared once.
  const groups = new Map<string, Pick<Group, "taker" | "tiers"> & { hostnames: number }>();
  for (const [hostname, sharing] of own) {
    if (pace.isOver(1 + sharing.length)) yield;
    const taker = takerOf(hostname);
    // That is no loss for a route that the other listener serves, too.
    const losing = (place: number): boolean => {
      const route = routes[place];
      return taker === undefined || (route !== undefined && !isServedAt(route, taker));
    };
    const places = sharing.filter(losing);
    if (places.length === 0) continue;
    const key = `${taker?.key ?? ""} ${places.join(" ")}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { hostnames: 1, taker, tiers: [{ hostname, routes: places }] });
    else group.hostnames++;
  }
  if (shared.length > 0) groups.set("shared", { hostnames: 1, taker: undefined, tiers: shared });
  const priced: Group[] = [];
  for (const group of groups.values()) {
    let cost = 0;
    for (const place of group.tiers.flatMap((tier) => tier.routes)) {
      cost += group.taker === undefined ? (entries[place]?.length ?? 0) : 1;
      if (pace.isOver(1)) yield;
    }
    priced.push({ ...group, cost });
  }
  return priced;
}

/**
 * Places of routes by hostname. `shared`: hostnames that cover that of the listener, so that all of its requests are
 * theirs, the most specific first; a route counts at its most specific one. `own`: the others.
 */
function* tiersOf(
  { hostname: of }: ConflictListener,
  routes: readonly ConflictRoute[],
  pace: Pace,
): Steps<{
  readonly shared: readonly Tier[];
  readonly own: ReadonlyMap<string | undefined, readonly number[]>;
}> {
  const isShared = (hostname: string | undefined): boolean => {
    if (of === undefined) return false;
    return hostname === undefined || hostname === of || (hostname.startsWith("*.") && of.endsWith(hostname.slice(1)));
  };
  const own = new Map<string | undefined, number[]>();
  const shared = new Map<string | undefined, number[]>();
  const add = (to: typeof own, hostname: string | undefined, place: number): void => {
    const places = to.get(hostname);
    if (places === undefined) to.set(hostname, [place]);
    else places.push(place);
  };
  for (const [place, { hostnames }] of routes.entries()) {
    const all = hostnames.length === 0 ? [undefined] : hostnames;
    for (const hostname of all) if (!isShared(hostname)) add(own, hostname, place);
    const [most] = all.filter(isShared).sort((a, b) => specificity(b) - specificity(a));
    if (all.some(isShared)) add(shared, most, place);
    if (pace.isOver(all.length)) yield;
  }
  const tiers = Array.from(shared, ([hostname, places]): Tier => ({ hostname, routes: places }));
  return { shared: tiers.sort((a, b) => specificity(b.hostname) - specificity(a.hostname)), own };
}

interface AnalysisParts {
  readonly listener: ConflictListener;
  /** In the order of precedence between matches of one rank. */
  readonly routes: readonly ConflictRoute[];
  /** By place of the route. */
  readonly entries: readonly (readonly MatchEntry[])[];
  readonly inputSize: number;
  readonly groups: readonly Group[];
  /** In how many groups each route is. */
  readonly groupCounts: readonly number[];
  readonly reader: MatchReader;
  readonly pace: Pace;
}

/** The routes of one listener, compared with each other. */
class ListenerAnalysis {
  readonly listener: ConflictListener;
  readonly groups: readonly Group[];
  /** Matches and hostnames of the routes. */
  readonly inputSize: number;
  readonly #routes: readonly ConflictRoute[];
  readonly #entries: readonly (readonly MatchEntry[])[];
  readonly #groupCounts: readonly number[];
  /** By place of the route, then of the rule. */
  readonly #losses = new Map<number, Map<number, Losses>>();
  /** By place of the route. */
  readonly #lostHosts = new Map<number, LostHosts>();
  readonly #reader: MatchReader;
  readonly #pace: Pace;

  /** For `analysisOf`. */
  constructor(parts: AnalysisParts) {
    this.listener = parts.listener;
    this.groups = parts.groups;
    this.inputSize = parts.inputSize;
    this.#routes = parts.routes;
    this.#entries = parts.entries;
    this.#groupCounts = parts.groupCounts;
    this.#reader = parts.reader;
    this.#pace = parts.pace;
  }

  *examine({ taker, tiers }: Group, meter: Meter): Steps<void> {
    if (taker !== undefined) {
      for (const tier of tiers) yield* this.#loseHost(tier, taker);
      return;
    }
    const above = new Cover(this.#reader, meter);
    for (const [at, tier] of tiers.entries()) {
      const standing = yield* this.#examineTier(tier, above, meter);
      if (at < tiers.length - 1) for (const placed of standing) above.add(placed, at);
    }
  }

  /** A route loses the host with all of its rules; so the rules are not gone through for each host. */
  *#loseHost({ hostname, routes }: Tier, taker: ConflictListener): Steps<void> {
    const host = hostname === undefined ? {} : { hostname };
    const winner = { kind: "listener", listener: taker.key } as const;
    for (const place of routes) {
      const lost = this.#lostHosts.get(place) ?? { count: 0, byTaker: new Map(), leftOut: new Set() };
      this.#lostHosts.set(place, lost);
      lost.count++;
      const { byTaker, leftOut } = lost;
      if (!byTaker.has(taker.key)) {
        if (byTaker.size >= maxWinners) leftOut.add(taker.key);
        else
          byTaker.set(taker.key, {
            listener: this.listener.key,
            ...host,
            winner,
            decidedBy: "Listener",
            extent: "Whole",
          });
      }
      if (this.#pace.isOver(1)) yield;
    }
  }

  /** @returns the matches that get requests, as far as is known. */
  *#examineTier({ hostname, routes }: Tier, above: Cover, meter: Meter): Steps<readonly PlacedEntry[]> {
    const byIdentity = new Map<string, PlacedEntry>();
    for (const route of routes) {
      for (const entry of this.#entries[route] ?? []) {
        const placed = { route, entry };
        const over = above.find(entry, entry.conditions);
        const same = byIdentity.get(entry.identity);
        if (over !== undefined) this.#loseTo(over, placed, hostname, "Hostname");
        else if (same === undefined) byIdentity.set(entry.identity, placed);
        // Twice in one rule is the same as once.
        else if (same.route !== route || same.entry.rule !== entry.rule) this.#loseTo(same, placed, hostname);
      }
      yield;
    }
    if (routes.length > 1) yield* this.#findOverlaps({ hostname, routes }, byIdentity, above, meter);
    return [...byIdentity.values()];
  }

  *#findOverlaps(
    { hostname }: Tier,
    byIdentity: ReadonlyMap<string, PlacedEntry>,
    above: Cover,
    meter: Meter,
  ): Steps<void> {
    const indexes = new Map<string, OverlapIndex>();
    for (const placed of byIdentity.values()) {
      const { pathNumber, method, conditions, headerCount } = placed.entry;
      if (conditions.length === 0) continue;
      const rank = `${conditions.length} ${headerCount} ${identityOf(pathNumber, method, [])}`;
      const index = indexes.get(rank) ?? new OverlapIndex();
      indexes.set(rank, index);
      if (!meter.spend(index.cost)) return;
      yield;
      const winner = index.add(placed);
      const both = winner && together(winner.entry, placed.entry);
      if (winner === undefined || both === undefined) continue;
      // Where a match decides about the requests that both hold for, somebody has thought of them.
      const isDecided =
        [...subsetsOf(both)].some((some) => {
          const other = byIdentity.get(identityOf(pathNumber, method, some));
          return other !== undefined && isStronger(other, winner);
        }) || above.find(placed.entry, both) !== undefined;
      if (!isDecided) this.#loseTo(winner, placed, hostname, undefined);
    }
  }

  /** @param decision undefined: what decides between routes at one hostname. */
  #loseTo(winner: PlacedEntry, loser: PlacedEntry, hostname: string | undefined, decision?: Decision): void {
    const { identity, rule, match } = loser.entry;
    const isWhole = decision === "Hostname" || identity === winner.entry.identity;
    const losses = this.#lossesOf(loser.route, rule);
    if (isWhole) losses.count++;
    this.#tell(losses, `${winner.route} ${winner.entry.rule}`, isWhole ? "Whole" : "Overlap", () => {
      const [route, own] = [this.#routes[winner.route], this.#routes[loser.route]];
      const decidedBy = decision ?? (route && own ? decisionBetween(route, own) : "RuleOrder");
      return { hostname, match, winner: { kind: "rule", route: route?.key ?? "", rule: winner.entry.rule }, decidedBy };
    });
  }

  #lossesOf(place: number, rule: number): Losses {
    const ofRoute = this.#losses.get(place) ?? new Map<number, Losses>();
    this.#losses.set(place, ofRoute);
    const losses = ofRoute.get(rule) ?? { count: 0, byWinner: new Map<string, Conflict>(), leftOut: new Set<string>() };
    ofRoute.set(rule, losses);
    return losses;
  }

  /** Most losses are to a winner that is known; `describe` is called for the others. */
  #tell(
    { byWinner, leftOut }: Losses,
    winner: string,
    extent: Conflict["extent"],
    describe: () => Omit<Conflict, "listener" | "hostname" | "extent"> & { readonly hostname: string | undefined },
  ): void {
    const known = byWinner.get(winner);
    if (known !== undefined && (known.extent === "Whole" || extent === "Overlap")) return;
    if (known === undefined && byWinner.size >= maxWinners) {
      leftOut.add(winner);
      return;
    }
    const { hostname, ...conflict } = describe();
    const host = hostname === undefined ? {} : { hostname };
    byWinner.set(winner, { listener: this.listener.key, ...host, ...conflict, extent });
  }

  /** Of the routes that have lost something, by their key. */
  *results(): Steps<ReadonlyMap<string, readonly RuleReach[]>> {
    const byRoute = new Map<string, readonly RuleReach[]>();
    for (const [place, { key, rules }] of this.#routes.entries()) {
      const hosts = this.#lostHosts.get(place);
      const ofRoute = this.#losses.get(place);
      if (hosts !== undefined || ofRoute !== undefined) {
        const takers = [...(hosts?.byTaker.values() ?? [])];
        const reaches = rules.map(({ matches }, rule): RuleReach => {
          const losses = ofRoute?.get(rule);
          if (hosts === undefined && losses === undefined) return { isReachable: true, conflicts: [], leftOut: 0 };
          const lost = (losses?.count ?? 0) + matches.length * (hosts?.count ?? 0);
          const winners = losses === undefined ? takers : [...takers, ...losses.byWinner.values()];
          const conflicts = winners.length > maxWinners ? winners.slice(0, maxWinners) : winners;
          const leftOut = winners.length - conflicts.length + (losses?.leftOut.size ?? 0) + (hosts?.leftOut.size ?? 0);
          return { isReachable: lost < matches.length * (this.#groupCounts[place] ?? 0), conflicts, leftOut };
        });
        byRoute.set(key, reaches);
      }
      if (this.#pace.isOver(1 + rules.length)) yield;
    }
    return byRoute;
  }
}

/** The longer the more specific, as all of them end alike; every host is the least specific. */
function specificity(hostname: string | undefined): number {
  return hostname === undefined ? -1 : hostname.length + (hostname.startsWith("*.") ? 0 : 1);
}

/** For matches of one path and method at one hostname. */
function isStronger(a: PlacedEntry, b: PlacedEntry): boolean {
  const [one, other] = [a.entry, b.entry];
  if (one.headerCount !== other.headerCount) return one.headerCount > other.headerCount;
  if (one.conditions.length !== other.conditions.length) return one.conditions.length > other.conditions.length;
  return (a.route - b.route || one.rule - other.rule || one.match - other.match) < 0;
}

/** A match at a more specific hostname. */
interface CoverEntry extends PlacedEntry {
  /** The hostname's place; the lower goes first. */
  readonly tier: number;
}

/** Matches at more specific hostnames, which are tried first whatever they match. */
class Cover {
  readonly #reader: MatchReader;
  readonly #meter: Meter;
  /** By path, then by identity. */
  readonly #byPath = new Map<number, Map<string, CoverEntry>>();

  constructor(reader: MatchReader, meter: Meter) {
    this.#reader = reader;
    this.#meter = meter;
  }

  add(placed: PlacedEntry, tier: number): void {
    const { pathNumber, identity } = placed.entry;
    const ofPath = this.#byPath.get(pathNumber) ?? new Map<string, CoverEntry>();
    this.#byPath.set(pathNumber, ofPath);
    if (!ofPath.has(identity)) ofPath.set(identity, { ...placed, tier });
  }

  /**
   * The first that holds for all requests that have the path and the method, and all of `conditions`; undefined, too,
   * where nothing is left to look with.
   */
  find({ path, method }: MatchEntry, conditions: readonly Condition[]): PlacedEntry | undefined {
    if (this.#byPath.size === 0) return undefined;
    let first: CoverEntry | undefined;
    for (const wider of pathsOver(path)) {
      if (!this.#meter.spend(1)) return first;
      const number = this.#reader.pathNumber(wider);
      const ofPath = number === undefined ? undefined : this.#byPath.get(number);
      if (number === undefined || ofPath === undefined) continue;
      for (const found of this.#findIn(ofPath, number, method, conditions)) {
        // Of those of one hostname the first path is the strongest.
        const isEqual = first?.tier === found.tier && first.entry.pathNumber === number;
        if (first === undefined || found.tier < first.tier || (isEqual && isStrongerAbove(found, first))) first = found;
      }
    }
    return first;
  }

  *#findIn(
    ofPath: ReadonlyMap<string, CoverEntry>,
    path: number,
    method: number,
    conditions: readonly Condition[],
  ): Generator<CoverEntry> {
    for (const some of subsetsOf(conditions)) {
      if (!this.#meter.spend(1)) return;
      for (const each of method === 0 ? [0] : [method, 0]) {
        const found = ofPath.get(identityOf(path, each, some));
        if (found !== undefined) yield found;
      }
    }
  }
}

/** For matches of one path at one hostname. */
function isStrongerAbove(a: PlacedEntry, b: PlacedEntry): boolean {
  const [one, other] = [a.entry.method !== 0, b.entry.method !== 0];
  return one === other ? isStronger(a, b) : one;
}

/** The path itself, and every prefix of whole segments; of a regular expression none, as they are not compared. */
function* pathsOver(path: Match["path"]): Generator<Match["path"]> {
  yield path;
  if (path.kind === "RegularExpression") return;
  const { kind, value } = path;
  if (kind === "Exact" && value !== "/" && !value.endsWith("/")) yield { kind: "PathPrefix", value };
  for (let slash = value.lastIndexOf("/"); slash > 0; slash = value.lastIndexOf("/", slash - 1)) {
    yield { kind: "PathPrefix", value: value.slice(0, slash) };
  }
  if (value !== "/" || kind === "Exact") yield { kind: "PathPrefix", value: "/" };
}
