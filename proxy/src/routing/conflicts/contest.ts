/**
 * Which routes compete with each other at a listener, and for which hostnames. Listeners at which the same routes compete
 * for the same hostnames share one contest, so that a Gateway with 64 listeners costs what one listener does.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { HostTable } from "../host-table.ts";
import { type MatchEntry, MatchReader } from "../match-entry.ts";
import type { Pace } from "../pace.ts";
import type { PathRules } from "../path-rules.ts";
import { byPrecedence } from "../precedence.ts";
import type { ConflictListener, ConflictRoute } from "./findings.ts";

export interface Contest {
  /** Keys of the listeners that share it. */
  readonly listeners: string[];
  /** In the order of precedence between matches of one rank. A route's place is its index here. */
  readonly routes: readonly ConflictRoute[];
  /** The matches of the routes, by place of the route. */
  readonly entries: readonly (readonly MatchEntry[])[];
  readonly groups: readonly Group[];
  /** In how many groups each route is, by place of the route. */
  readonly groupCounts: readonly number[];
}

/** Routes that compete for the same hosts, or that lose them to the same listener. */
export interface Group {
  /** Matches of the routes; where a listener takes the hosts, the number of routes. */
  readonly cost: number;
  /** How many hostnames it is about. */
  readonly hostnames: number;
  /** The listener that has all requests for the hosts instead. Then there is one tier, of routes that it does not serve. */
  readonly taker: ConflictListener | undefined;
  /** The most specific hostname first. More than one only where all of them cover the one hostname of the listener. */
  readonly tiers: readonly Tier[];
}

export interface Tier {
  readonly hostname: string | undefined;
  /** Places of the routes in the order of precedence. */
  readonly routes: readonly number[];
}

export interface Contests {
  readonly contests: readonly Contest[];
  /** Matches and hostnames of all routes, each route once however many listeners it has. */
  readonly inputSize: number;
  /** Reads every match of the contests. */
  readonly reader: MatchReader;
}

interface Surroundings {
  readonly takerOf: (hostname: string | undefined) => ConflictListener | undefined;
  readonly isServedAt: (route: ConflictRoute, listener: ConflictListener) => boolean;
  readonly entriesOf: (route: ConflictRoute) => readonly MatchEntry[];
  readonly pace: Pace;
}

/** @param pathRules how the paths of requests are normalised. */
export function* contestsOf(listeners: readonly ConflictListener[], pathRules: PathRules, pace: Pace): Steps<Contests> {
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
  const { reader, entries, inputSize } = yield* readRoutes(listeners, pathRules, pace);
  const entriesOf = ({ rules }: ConflictRoute): readonly MatchEntry[] => entries.get(rules) ?? [];
  const isServedAt = (route: ConflictRoute, other: ConflictListener): boolean => {
    return routeKeys.get(other.key)?.has(route.key) === true;
  };
  const contests = new Map<string, Contest>();
  const numbers = new Map<unknown, number>();
  for (const listener of listeners) {
    const tables = listener.sockets.flatMap((socket) => sockets.get(socket) ?? []);
    /** The listener that has all requests for a hostname instead; undefined where this one gets some somewhere. */
    const takerOf = (hostname: string | undefined): ConflictListener | undefined => {
      if (hostname === undefined) return undefined;
      const takers = tables.map((table) => table.find(hostname));
      return takers.includes(listener) ? undefined : takers[0];
    };
    const contest = yield* contestOf(listener, { takerOf, isServedAt, entriesOf, pace });
    const key = yield* keyOf(contest, numbers, pace);
    const known = contests.get(key);
    if (known === undefined) contests.set(key, contest);
    else known.listeners.push(listener.key);
    yield;
  }
  return { contests: [...contests.values()], inputSize, reader };
}

interface ReadRoutes {
  readonly reader: MatchReader;
  /** A route has the same rules at each of its listeners. */
  readonly entries: ReadonlyMap<ConflictRoute["rules"], readonly MatchEntry[]>;
  readonly inputSize: number;
}

function* readRoutes(listeners: readonly ConflictListener[], pathRules: PathRules, pace: Pace): Steps<ReadRoutes> {
  const reader = new MatchReader(pathRules);
  const entries = new Map<ConflictRoute["rules"], readonly MatchEntry[]>();
  let inputSize = 0;
  for (const { routes } of listeners) {
    for (const { rules, hostnames } of routes) {
      if (pace.isOver(1)) yield;
      if (entries.has(rules)) continue;
      const own = reader.read(rules);
      entries.set(rules, own);
      inputSize += own.length + hostnames.length;
      yield;
    }
  }
  return { reader, entries, inputSize };
}

/** Equal for listeners whose contests have the same result; a number for each text, as hostnames and keys are long. */
function* keyOf({ routes, groups }: Contest, numbers: Map<unknown, number>, pace: Pace): Steps<string> {
  const numberOf = (value: unknown): number => {
    const number = numbers.get(value) ?? numbers.size;
    numbers.set(value, number);
    return number;
  };
  const parts: string[] = [];
  for (const { key, creationTimestamp, rules } of routes) {
    parts.push(String(numberOf(`${key} ${creationTimestamp} ${numberOf(rules)}`)));
    if (pace.isOver(1)) yield;
  }
  for (const { hostnames, taker, tiers } of groups) {
    parts.push(`${hostnames} of ${numberOf(taker?.key)}`);
    for (const { hostname, routes: places } of tiers) {
      parts.push(`${numberOf(hostname)}: ${places.join(" ")}`);
      if (pace.isOver(1 + places.length)) yield;
    }
  }
  return parts.join(",");
}

function* contestOf(listener: ConflictListener, surroundings: Surroundings): Steps<Contest> {
  const { entriesOf, pace } = surroundings;
  const routes = byPrecedence(listener.routes.map((route) => ({ route }))).map(({ route }) => route);
  const entries: (readonly MatchEntry[])[] = [];
  for (const route of routes) {
    entries.push(entriesOf(route));
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
  return { listeners: [listener.key], routes, entries, groups, groupCounts };
}

function* groupsOf(
  listener: ConflictListener,
  { routes, entries }: Pick<Contest, "routes" | "entries">,
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

/** The longer the more specific, as all of them end alike; every host is the least specific. */
function specificity(hostname: string | undefined): number {
  return hostname === undefined ? -1 : hostname.length + (hostname.startsWith("*.") ? 0 : 1);
}
