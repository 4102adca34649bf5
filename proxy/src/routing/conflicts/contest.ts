/**
 * A contest: the routes of a listener, grouped by the hostnames at which they compete for requests. Listeners with the
 * same routes at the same hostnames share one contest, so the analysis of a Gateway with 64 such listeners costs as
 * much as that of one listener.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { HostTable } from "../host-table.ts";
import type { MatchEntry, MatchReader } from "../match-entry.ts";
import type { Pace } from "../pace.ts";
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
   * The key of another listener of the same address that gets all requests for the hostnames; usually undefined. If
   * present, the only tier has the routes that this listener does not serve.
   */
  readonly hostOwner: string | undefined;
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

/** The contests of several listeners, without duplicates. */
export interface Contests {
  readonly contests: readonly Contest[];
  /** Matches and hostnames of all routes. A route counts once, whatever the number of its listeners. */
  readonly inputSize: number;
}

/** A listener without its routes. */
export type ConflictSite = Omit<ConflictListener, "routes">;

/** Which listeners get the requests for a hostname. Listeners of one address divide them. */
export class HostOwners {
  /** By the key of the listener: the listeners of each of its addresses. */
  readonly #tables = new Map<string, readonly HostTable<ConflictSite>[]>();

  constructor(listeners: readonly ConflictSite[]) {
    const sockets = new Map<string, HostTable<ConflictSite>>();
    for (const listener of listeners) {
      for (const socket of listener.sockets) {
        const table = sockets.get(socket) ?? new HostTable();
        table.add(listener.hostname, listener);
        sockets.set(socket, table);
      }
    }
    for (const { key, sockets: own } of listeners) {
      this.#tables.set(
        key,
        own.flatMap((socket) => sockets.get(socket) ?? []),
      );
    }
  }

  /**
   * Returns the key of the other listener that gets all requests for a hostname; undefined if the listener gets some of
   * them at any of its addresses.
   */
  ownerOf(hostname: string | undefined, { key }: ConflictSite): string | undefined {
    if (hostname === undefined) return undefined;
    const owners = this.#tables.get(key)?.map((table) => table.find(hostname)?.key) ?? [];
    return owners.includes(key) ? undefined : owners[0];
  }
}

/** What the contests of one configuration have in common. */
export interface ContestTools {
  readonly owners: HostOwners;
  readonly reader: MatchReader;
  readonly pace: Pace;
}

interface ContestContext extends ContestTools {
  readonly isServedAt: (route: ConflictRoute, listener: string) => boolean;
}

/** @param listeners with all routes that compete with one of them. Other listeners serve none of them. */
export function* contestsOf(listeners: readonly ConflictListener[], tools: ContestTools): Steps<Contests> {
  const { reader, pace } = tools;
  const routeKeys = new Map<string, ReadonlySet<string>>();
  const rulesRead = new Set<ConflictRoute["rules"]>();
  let inputSize = 0;
  for (const { key, routes } of listeners) {
    routeKeys.set(key, new Set(routes.map((route) => route.key)));
    for (const { rules, hostnames } of routes) {
      if (pace.endsStep(1)) yield;
      // The rules of a route are the same object at each of its listeners.
      if (rulesRead.has(rules)) continue;
      rulesRead.add(rules);
      const { length } = reader.read(rules);
      inputSize += length + hostnames.length;
      if (pace.endsStep(length)) yield;
    }
  }
  const isServedAt = (route: ConflictRoute, other: string): boolean => routeKeys.get(other)?.has(route.key) === true;
  const contests = new Map<string, Contest>();
  const numbers = new Map<unknown, number>();
  for (const listener of listeners) {
    const contest = yield* contestOf(listener, { ...tools, isServedAt });
    // Most routes have one listener.
    const key = listeners.length === 1 ? "" : yield* keyOf(contest, numbers, pace);
    const existing = contests.get(key);
    if (existing === undefined) contests.set(key, contest);
    else existing.listeners.push(listener.key);
    if (pace.endsStep(1)) yield;
  }
  return { contests: [...contests.values()], inputSize };
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
    parts.push(`${hostnames} of ${numberOf(hostOwner)}`);
    for (const { hostname, routes: positions } of tiers) {
      parts.push(`${numberOf(hostname)}: ${positions.join(" ")}`);
      if (pace.endsStep(1 + positions.length)) yield;
    }
  }
  return parts.join(",");
}

function* contestOf(listener: ConflictListener, context: ContestContext): Steps<Contest> {
  const { reader, pace } = context;
  const routes = byPrecedence(listener.routes.map((route) => ({ route }))).map(({ route }) => route);
  const entries: (readonly MatchEntry[])[] = [];
  for (const route of routes) {
    entries.push(reader.read(route.rules));
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
  { owners, isServedAt, pace }: ContestContext,
): Steps<readonly Group[]> {
  const { shared, separate } = yield* tiersOf(listener, routes, pace);
  // Hostnames that have the same routes form one group, which is compared once.
  const groups = new Map<string, Pick<Group, "hostOwner" | "tiers"> & { hostnames: number }>();
  for (const [hostname, all] of separate) {
    if (pace.endsStep(1 + all.length)) yield;
    const hostOwner = owners.ownerOf(hostname, listener);
    // A route that the other listener serves too does not lose its requests.
    const losesHostname = (position: number): boolean => {
      const route = routes[position];
      return hostOwner === undefined || (route !== undefined && !isServedAt(route, hostOwner));
    };
    const positions = all.filter(losesHostname);
    if (positions.length === 0) continue;
    const key = `${hostOwner ?? ""} ${positions.join(" ")}`;
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
  const isShared = (hostname: string | undefined): boolean => coversListener(hostname, listenerHostname);
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

/** Whether all requests of a listener with a hostname match a hostname of a route. */
export function coversListener(hostname: string | undefined, ofListener: string | undefined): boolean {
  if (ofListener === undefined) return false;
  if (hostname === undefined || hostname === ofListener) return true;
  return hostname.startsWith("*.") && ofListener.endsWith(hostname.slice(1));
}

/**
 * Returns a greater number for a more specific hostname. The hostnames to compare have the same end, so a longer one is
 * more specific.
 */
function specificity(hostname: string | undefined): number {
  return hostname === undefined ? -1 : hostname.length + (hostname.startsWith("*.") ? 0 : 1);
}
