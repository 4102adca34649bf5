/**
 * A contest: the routes of a listener, grouped by the hostnames at which they compete for requests. Listeners with the
 * same routes at the same hostnames share one contest, so the analysis of a Gateway with 64 such listeners costs as much
 * as that of one listener.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { HostTable } from "../host-table.ts";
import { type MatchEntry, MatchReader } from "../match-entry.ts";
import type { Pace } from "../pace.ts";
import type { PathRules } from "../path-rules.ts";
import { byPrecedence } from "../precedence.ts";
import type { ConflictListener, ConflictRoute } from "./findings.ts";

/** The routes of one listener, or of several with the same routes at the same hostnames. */
export interface Contest {
  /** Keys of the listeners that share this contest. */
  readonly listeners: string[];
  /**
   * Sorted by age and name, which decide between matches of equal precedence. The position of a route is its index in
   * this array.
   */
  readonly routes: readonly ConflictRoute[];
  /** The matches of each route, by the position of the route. */
  readonly entries: readonly (readonly MatchEntry[])[];
  readonly groups: readonly Group[];
  /** The number of groups that contain each route, by the position of the route. */
  readonly groupCounts: readonly number[];
}

/** Routes that compete at the same hostnames, or that lose the same hostnames to another listener. */
export interface Group {
  /** The number of matches to compare; if another listener owns the hostnames, the number of routes. */
  readonly cost: number;
  /** The number of hostnames that have this group of routes. */
  readonly hostnames: number;
  /**
   * Another listener of the same address that gets all requests for the hostnames; usually undefined. If present, the
   * only tier has the routes that this listener does not serve.
   */
  readonly hostOwner: ConflictListener | undefined;
  /**
   * The most specific hostname first. Only the group of the hostnames that cover the hostname of the listener has
   * several tiers, because each request matches all of these hostnames.
   */
  readonly tiers: readonly Tier[];
}

/** The routes of a group that have the same hostname; undefined: every host. */
export interface Tier {
  readonly hostname: string | undefined;
  /** Positions of the routes, in order of precedence. */
  readonly routes: readonly number[];
}

/** The contests of all listeners, without duplicates. */
export interface Contests {
  readonly contests: readonly Contest[];
  /** Matches and hostnames of all routes. A route counts once, whatever the number of its listeners. */
  readonly inputSize: number;
  /** The reader of all matches of the contests. */
  readonly reader: MatchReader;
}

interface ContestContext {
  readonly hostOwnerOf: (hostname: string | undefined) => ConflictListener | undefined;
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
    /**
     * Returns the other listener that gets all requests for a hostname; undefined if this one gets some of them at any
     * of its addresses.
     */
    const hostOwnerOf = (hostname: string | undefined): ConflictListener | undefined => {
      if (hostname === undefined) return undefined;
      const owners = tables.map((table) => table.find(hostname));
      return owners.includes(listener) ? undefined : owners[0];
    };
    const contest = yield* contestOf(listener, { hostOwnerOf, isServedAt, entriesOf, pace });
    const key = yield* keyOf(contest, numbers, pace);
    const existing = contests.get(key);
    if (existing === undefined) contests.set(key, contest);
    else existing.listeners.push(listener.key);
    yield;
  }
  return { contests: [...contests.values()], inputSize, reader };
}

interface ReadRoutes {
  readonly reader: MatchReader;
  /** By the rules of a route, which are the same object at each of its listeners. */
  readonly entries: ReadonlyMap<ConflictRoute["rules"], readonly MatchEntry[]>;
  readonly inputSize: number;
}

function* readRoutes(listeners: readonly ConflictListener[], pathRules: PathRules, pace: Pace): Steps<ReadRoutes> {
  const reader = new MatchReader(pathRules);
  const entries = new Map<ConflictRoute["rules"], readonly MatchEntry[]>();
  let inputSize = 0;
  for (const { routes } of listeners) {
    for (const { rules, hostnames } of routes) {
      if (pace.endsStep(1)) yield;
      if (entries.has(rules)) continue;
      const matches = reader.read(rules);
      entries.set(rules, matches);
      inputSize += matches.length + hostnames.length;
      yield;
    }
  }
  return { reader, entries, inputSize };
}

/**
 * A key that is equal for contests with equal results. It contains numbers instead of texts, because hostnames and keys
 * are long.
 */
function* keyOf({ routes, groups }: Contest, numbers: Map<unknown, number>, pace: Pace): Steps<string> {
  const numberOf = (value: unknown): number => {
    const number = numbers.get(value) ?? numbers.size;
    numbers.set(value, number);
    return number;
  };
  const parts: string[] = [];
  for (const { key, creationTimestamp, rules } of routes) {
    parts.push(String(numberOf(`${key} ${creationTimestamp} ${numberOf(rules)}`)));
    if (pace.endsStep(1)) yield;
  }
  for (const { hostnames, hostOwner, tiers } of groups) {
    parts.push(`${hostnames} of ${numberOf(hostOwner?.key)}`);
    for (const { hostname, routes: positions } of tiers) {
      parts.push(`${numberOf(hostname)}: ${positions.join(" ")}`);
      if (pace.endsStep(1 + positions.length)) yield;
    }
  }
  return parts.join(",");
}

function* contestOf(listener: ConflictListener, context: ContestContext): Steps<Contest> {
  const { entriesOf, pace } = context;
  const routes = byPrecedence(listener.routes.map((route) => ({ route }))).map(({ route }) => route);
  const entries: (readonly MatchEntry[])[] = [];
  for (const route of routes) {
    entries.push(entriesOf(route));
    if (pace.endsStep(1)) yield;
  }
  const groups = yield* groupsOf(listener, { routes, entries }, context);
  const groupCounts = routes.map(() => 0);
  for (const { tiers } of groups) {
    for (const position of tiers.flatMap((tier) => tier.routes)) {
      groupCounts[position] = (groupCounts[position] ?? 0) + 1;
      if (pace.endsStep(1)) yield;
    }
  }
  return { listeners: [listener.key], routes, entries, groups, groupCounts };
}

function* groupsOf(
  listener: ConflictListener,
  { routes, entries }: Pick<Contest, "routes" | "entries">,
  { hostOwnerOf, isServedAt, pace }: ContestContext,
): Steps<readonly Group[]> {
  const { shared, separate } = yield* tiersOf(listener, routes, pace);
  // Hostnames that have the same routes form one group, which is compared once.
  const groups = new Map<string, Pick<Group, "hostOwner" | "tiers"> & { hostnames: number }>();
  for (const [hostname, all] of separate) {
    if (pace.endsStep(1 + all.length)) yield;
    const hostOwner = hostOwnerOf(hostname);
    // A route that the other listener serves too does not lose its requests.
    const losesHostname = (position: number): boolean => {
      const route = routes[position];
      return hostOwner === undefined || (route !== undefined && !isServedAt(route, hostOwner));
    };
    const positions = all.filter(losesHostname);
    if (positions.length === 0) continue;
    const key = `${hostOwner?.key ?? ""} ${positions.join(" ")}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { hostnames: 1, hostOwner, tiers: [{ hostname, routes: positions }] });
    else group.hostnames++;
  }
  if (shared.length > 0) groups.set("shared", { hostnames: 1, hostOwner: undefined, tiers: shared });
  const withCosts: Group[] = [];
  for (const group of groups.values()) {
    let cost = 0;
    for (const position of group.tiers.flatMap((tier) => tier.routes)) {
      cost += group.hostOwner === undefined ? (entries[position]?.length ?? 0) : 1;
      if (pace.endsStep(1)) yield;
    }
    withCosts.push({ ...group, cost });
  }
  return withCosts;
}

/**
 * Returns the positions of routes by hostname.
 *
 * `shared` has the hostnames that cover the hostname of the listener: each request of the listener matches all of them.
 * The most specific hostname is first, and each route is listed at its most specific hostname only. `separate` has all
 * other hostnames.
 */
function* tiersOf(
  { hostname: listenerHostname }: ConflictListener,
  routes: readonly ConflictRoute[],
  pace: Pace,
): Steps<{
  readonly shared: readonly Tier[];
  readonly separate: ReadonlyMap<string | undefined, readonly number[]>;
}> {
  const isShared = (hostname: string | undefined): boolean => {
    if (listenerHostname === undefined) return false;
    if (hostname === undefined || hostname === listenerHostname) return true;
    return hostname.startsWith("*.") && listenerHostname.endsWith(hostname.slice(1));
  };
  const separate = new Map<string | undefined, number[]>();
  const shared = new Map<string | undefined, number[]>();
  const add = (to: typeof separate, hostname: string | undefined, position: number): void => {
    const positions = to.get(hostname);
    if (positions === undefined) to.set(hostname, [position]);
    else positions.push(position);
  };
  for (const [position, { hostnames }] of routes.entries()) {
    const all = hostnames.length === 0 ? [undefined] : hostnames;
    for (const hostname of all) if (!isShared(hostname)) add(separate, hostname, position);
    const [mostSpecific] = all.filter(isShared).sort((a, b) => specificity(b) - specificity(a));
    if (all.some(isShared)) add(shared, mostSpecific, position);
    if (pace.endsStep(all.length)) yield;
  }
  const tiers = Array.from(shared, ([hostname, positions]): Tier => ({ hostname, routes: positions }));
  return { shared: tiers.sort((a, b) => specificity(b.hostname) - specificity(a.hostname)), separate };
}

/**
 * Returns a greater number for a more specific hostname. The hostnames to compare have the same end, so a longer one is
 * more specific.
 */
function specificity(hostname: string | undefined): number {
  return hostname === undefined ? -1 : hostname.length + (hostname.startsWith("*.") ? 0 : 1);
}
