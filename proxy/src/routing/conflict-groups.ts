/** Which routes of a listener compete: those that have a hostname in common, or that lose it to one other listener. */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { ConflictListener, ConflictRoute } from "./conflict.ts";
import type { MatchEntry } from "./match-entry.ts";
import type { Pace } from "./pace.ts";

/** Routes that compete for the same hosts, or that lose them to the same listener. */
export interface Group {
  /** Look-ups for comparing all with all; where a listener takes the hosts, one for each route. */
  readonly cost: number;
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

/** The routes of a listener, in the order of precedence, with the matches of each. */
export interface ListenerRoutes {
  readonly routes: readonly ConflictRoute[];
  /** By place of the route. */
  readonly entries: readonly (readonly MatchEntry[])[];
}

/** What other listeners take of a listener's hosts. */
export interface OtherListeners {
  /** The listener that has all requests for a hostname instead; undefined where this one gets some somewhere. */
  readonly takerOf: (hostname: string | undefined) => ConflictListener | undefined;
  readonly isServedAt: (route: ConflictRoute, listener: ConflictListener) => boolean;
}

export function* groupsOf(
  listener: ConflictListener,
  { routes, entries }: ListenerRoutes,
  { takerOf, isServedAt }: OtherListeners,
  pace: Pace,
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
