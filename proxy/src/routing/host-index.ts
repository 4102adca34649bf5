/**
 * The matches of each hostname of each listener. They depend on the hostnames, the matches and the ages of routes, and not on what a
 * rule does, so that most changes of a route, and all changes of a backend, leave them as they are.
 */
import { hasSameItems } from "@gatewayproxy/runtime/memoised";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Listener, Route } from "../ir/snapshot.ts";
import { HostTable } from "./host-table.ts";
import type { Pace } from "./pace.ts";
import type { MatchSet, PathIndex } from "./path-index.ts";
import { type PreparedMatches, RouteSets, SharedRoutes } from "./shared-routes.ts";

/** The matches at one hostname, and the next less specific hostname, to try if none of them holds. */
export interface IndexedHost {
  readonly matches: MatchSet;
  lessSpecific: IndexedHost | undefined;
}

/** The hosts of a listener. */
export interface IndexedListener {
  /** The index of a route in the listener, by its position among all routes. */
  readonly places: ReadonlyMap<number, number>;
  readonly hosts: HostTable<IndexedHost>;
}

/** The hosts of all listeners of a snapshot. */
export interface HostIndex {
  readonly paths: PathIndex;
  /** In the order of the listeners. An error in one does not affect the others. */
  readonly listeners: readonly (IndexedListener | { readonly error: unknown })[];
}

/** Indexes the hosts of listeners; returns the last index if they would be the same. */
export class HostIndexer {
  readonly #prepared: PreparedMatches;
  #last: { readonly routes: readonly (readonly Route[])[]; readonly index: HostIndex } | undefined;

  constructor(prepared: PreparedMatches) {
    this.#prepared = prepared;
  }

  *index(listeners: readonly Listener[], pace: Pace): Steps<HostIndex> {
    const routes = listeners.map((listener) => listener.routes);
    const last = this.#last;
    if (last !== undefined && areFoundAlike(last.routes, routes)) {
      this.#last = { routes, index: last.index };
      return last.index;
    }
    const index = yield* indexHosts(listeners, this.#prepared, pace);
    this.#last = index.listeners.some((listener) => "error" in listener) ? undefined : { routes, index };
    return index;
  }
}

/** Whether requests find the same rules of the same routes in two snapshots. Most routes are the same objects. */
function areFoundAlike(before: readonly (readonly Route[])[], after: readonly (readonly Route[])[]): boolean {
  return haveSameLength(before, after) && after.every((routes, at) => isEachFoundAlike(before[at] ?? [], routes));
}

function isEachFoundAlike(before: readonly Route[], after: readonly Route[]): boolean {
  if (!haveSameLength(before, after)) return false;
  for (const [at, route] of after.entries()) {
    const other = before[at];
    if (other !== route && (other === undefined || !isFoundAlike(other, route))) return false;
  }
  return true;
}

function isFoundAlike(before: Route, { key, creationTimestamp, hostnames, rules }: Route): boolean {
  return (
    before.key === key &&
    before.creationTimestamp === creationTimestamp &&
    hasSameItems(before.hostnames, hostnames) &&
    haveSameLength(before.rules, rules) &&
    // Matches are plain data.
    rules.every(({ matches }, at) => JSON.stringify(before.rules[at]?.matches) === JSON.stringify(matches))
  );
}

function haveSameLength(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length;
}

/** A listener whose sets of routes are complete, but without the matches of these sets. */
interface ListenerDraft {
  readonly places: ReadonlyMap<number, number>;
  /** The number of the set of routes of each hostname. */
  readonly hostnames: ReadonlyMap<string | undefined, number>;
}

function* indexHosts(listeners: readonly Listener[], prepared: PreparedMatches, pace: Pace): Steps<HostIndex> {
  const shared = yield* SharedRoutes.of(listeners, prepared, pace);
  const sets = new RouteSets();
  const drafts: (ListenerDraft | { readonly error: unknown })[] = [];
  for (const { routes } of listeners) {
    try {
      const places = new Map(routes.map((route, at) => [shared.positionOf(route), at]));
      drafts.push({ places, hostnames: yield* setsByHostname(routes, shared, sets, pace) });
    } catch (error) {
      drafts.push({ error });
    }
  }
  // All sets of routes are complete here, so the matches of each set are selected once.
  const selected = yield* sets.select(shared.index, pace);
  const indexed: HostIndex["listeners"][number][] = [];
  for (const draft of drafts) {
    if ("error" in draft) indexed.push(draft);
    else indexed.push({ places: draft.places, hosts: yield* hostTableOf(draft.hostnames, selected, pace) });
  }
  return { paths: shared.index, listeners: indexed };
}

function* setsByHostname(
  routes: readonly Route[],
  shared: SharedRoutes,
  sets: RouteSets,
  pace: Pace,
): Steps<ReadonlyMap<string | undefined, number>> {
  const byHostname = new Map<string | undefined, number[]>();
  for (const route of routes) {
    const position = shared.positionOf(route);
    for (const hostname of route.hostnames.length === 0 ? [undefined] : route.hostnames) {
      const positionsOfHostname = byHostname.get(hostname);
      if (positionsOfHostname === undefined) byHostname.set(hostname, [position]);
      else positionsOfHostname.push(position);
    }
    if (pace.endsStep(1)) yield;
  }
  const numbers = new Map<string | undefined, number>();
  for (const [hostname, positions] of byHostname) {
    numbers.set(hostname, sets.numberOf(positions.sort((a, b) => a - b)));
    if (pace.endsStep(1 + positions.length / 4)) yield;
  }
  return numbers;
}

function* hostTableOf(
  hostnames: ReadonlyMap<string | undefined, number>,
  selected: readonly MatchSet[],
  pace: Pace,
): Steps<HostTable<IndexedHost>> {
  const table = new HostTable<IndexedHost>();
  const hosts = new Map<string | undefined, IndexedHost>();
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
