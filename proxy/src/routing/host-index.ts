/**
 * The matches of each hostname of each listener. They depend on the hostnames, the matches and the ages of routes, and
 * not on what a rule does, so that most changes of a route, and all changes of a backend, leave them as they are.
 * Routes that have no hostname in common are indexed apart (`families.ts`), so that a route that is added or removed
 * leaves the hostnames of others as they are.
 */
import { differenceBetween } from "@gatewayproxy/runtime/lists";
import { hasSameItems } from "@gatewayproxy/runtime/memoised";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { Listener, Route } from "../ir/snapshot.ts";
import { Families, type Family, type FamilyChange, itemsByList } from "./families.ts";
import { HostTable } from "./host-table.ts";
import type { Pace } from "./pace.ts";
import type { MatchSet, PathIndex } from "./path-index.ts";
import { type PreparedMatches, RouteSets, SharedRoutes } from "./shared-routes.ts";

/** The matches at one hostname. */
export interface IndexedHost {
  /** Undefined: every host. */
  readonly hostname: string | undefined;
  readonly paths: PathIndex;
  readonly matches: MatchSet;
  /** The keys of the routes of `paths`, by their positions there. */
  readonly routes: readonly string[];
}

/** The hosts of a listener, or why they could not be indexed. */
type IndexedListener = { readonly hosts: HostTable<IndexedHost> } | { readonly error: unknown };

/**
 * The hosts of all listeners of a snapshot, in the order of the listeners. An error in one does not affect the others.
 */
export type HostIndex = readonly IndexedListener[];

/** The hosts that a family of routes has at one listener. */
interface FamilyHosts {
  /** The index of the listener. */
  readonly listener: number;
  readonly hosts: readonly IndexedHost[] | { readonly error: unknown };
}

type RouteFamilies = Families<Route, readonly FamilyHosts[]>;

/** Indexes the hosts of one snapshot after the other; keeps those of families without a changed route. */
export class HostIndexer {
  readonly #prepared: PreparedMatches;
  #last:
    | {
        readonly routes: readonly (readonly Route[])[];
        readonly families: RouteFamilies;
        readonly hosts: readonly HostTable<IndexedHost>[];
      }
    | undefined;

  constructor(prepared: PreparedMatches) {
    this.#prepared = prepared;
  }

  *index(listeners: readonly Listener[], pace: Pace): Steps<HostIndex> {
    const routes = listeners.map((listener) => listener.routes);
    const last = this.#last?.routes.length === routes.length ? this.#last : undefined;
    // Families change in place, so they are not kept if the computation does not end.
    this.#last = undefined;
    const families: RouteFamilies = last?.families ?? new Families(kinship);
    const changes = routes.map((after, at) => differenceBetween(last?.routes[at] ?? [], after));
    const change = yield* families.update(changes, pace);
    for (const family of change.added) family.value = yield* hostsOf(family, this.#prepared, pace);
    const index = yield* withChange(last?.hosts ?? routes.map(() => new HostTable()), change, pace);
    const hosts = index.flatMap((listener) => ("hosts" in listener ? [listener.hosts] : []));
    if (hosts.length === index.length) this.#last = { routes, families, hosts };
    return index;
  }
}

/** Hostnames of several listeners are apart only if no route has both. */
const kinship = {
  keyOf: ({ key }: Route) => key,
  namesOf: ({ hostnames }: Route) => (hostnames.length === 0 ? everyHost : hostnames),
  isAlike: isFoundAlike,
};
const everyHost = [""];

/** Whether requests find the same rules of both versions of a route. */
function isFoundAlike(before: Route, { creationTimestamp, hostnames, rules }: Route): boolean {
  return (
    before.creationTimestamp === creationTimestamp &&
    hasSameItems(before.hostnames, hostnames) &&
    before.rules.length === rules.length &&
    // Matches are plain data.
    rules.every(({ matches }, at) => JSON.stringify(before.rules[at]?.matches) === JSON.stringify(matches))
  );
}

/** Returns the hosts of all listeners after a change of families. The hosts of other families stay. */
function* withChange(
  before: readonly HostTable<IndexedHost>[],
  { removed, added }: FamilyChange<Route, readonly FamilyHosts[]>,
  pace: Pace,
): Steps<HostIndex> {
  const [left, joined] = [yield* byListener(removed, pace), yield* byListener(added, pace)];
  const index: IndexedListener[] = [];
  for (const [listener, table] of before.entries()) {
    const [leaving = [], joining = []] = [left.get(listener), joined.get(listener)];
    const failed = joining.map(({ hosts }) => hosts).find((hosts) => "error" in hosts);
    if (failed !== undefined || leaving.length + joining.length === 0) {
      index.push(failed ?? { hosts: table });
      continue;
    }
    const hosts = table.copy();
    for (const { hostname } of hostsIn(leaving)) {
      hosts.delete(hostname);
      if (pace.endsStep(1 / 4)) yield;
    }
    for (const host of hostsIn(joining)) {
      hosts.add(host.hostname, host);
      if (pace.endsStep(1 / 4)) yield;
    }
    index.push({ hosts });
  }
  return index;
}

function* hostsIn(all: readonly FamilyHosts[]): Generator<IndexedHost> {
  for (const { hosts } of all) if (!("error" in hosts)) yield* hosts;
}

function* byListener(
  families: Iterable<Family<Route, readonly FamilyHosts[]>>,
  pace: Pace,
): Steps<ReadonlyMap<number, readonly FamilyHosts[]>> {
  const all = new Map<number, FamilyHosts[]>();
  for (const { value = [] } of families) {
    for (const hosts of value) {
      const known = all.get(hosts.listener);
      if (known === undefined) all.set(hosts.listener, [hosts]);
      else known.push(hosts);
      if (pace.endsStep(1 / 4)) yield;
    }
  }
  return all;
}

/** Indexes the hosts of one family. */
function* hostsOf(
  family: Family<Route, readonly FamilyHosts[]>,
  prepared: PreparedMatches,
  pace: Pace,
): Steps<readonly FamilyHosts[]> {
  const routes = yield* itemsByList(family, pace);
  const lists = [...routes.values()];
  const shared = yield* SharedRoutes.of(lists, prepared, pace);
  const sets = new RouteSets();
  const drafts: (ReadonlyMap<string | undefined, number> | { readonly error: unknown })[] = [];
  for (const list of lists) {
    try {
      drafts.push(yield* setsByHostname(list, shared, sets, pace));
    } catch (error) {
      drafts.push({ error });
    }
  }
  // All sets of routes are complete here, so the matches of each set are selected once.
  const selected = yield* sets.select(shared.index, pace);
  const all: FamilyHosts[] = [];
  for (const [at, listener] of [...routes.keys()].entries()) {
    const draft = drafts[at] ?? new Map();
    const hosts = "error" in draft ? draft : yield* hostsOfDraft(draft, selected, shared, pace);
    all.push({ listener, hosts });
  }
  return all;
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

function* hostsOfDraft(
  numbers: ReadonlyMap<string | undefined, number>,
  selected: readonly MatchSet[],
  { index: paths, keys: routes }: SharedRoutes,
  pace: Pace,
): Steps<readonly IndexedHost[]> {
  const hosts: IndexedHost[] = [];
  for (const [hostname, set] of numbers) {
    const matches = selected[set];
    if (matches !== undefined) hosts.push({ hostname, paths, matches, routes });
    if (pace.endsStep(1)) yield;
  }
  return hosts;
}
