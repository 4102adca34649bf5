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
import type { ConflictListener, ConflictRoute, RuleReach } from "./conflict.ts";
import { type Group, groupsOf, type OtherListeners } from "./conflict-groups.ts";
import { Meter } from "./conflict-meter.ts";
import { HostTable } from "./host-table.ts";
import { ListenerAnalysis } from "./listener-conflicts.ts";
import { type MatchEntry, MatchReader } from "./match-entry.ts";
import { Pace } from "./pace.ts";
import type { PathRules } from "./path-rules.ts";
import { compareRoutes } from "./precedence.ts";

export {
  type Conflict,
  type ConflictListener,
  type ConflictRoute,
  type Decision,
  maxWinners,
  type RuleReach,
  type Winner,
} from "./conflict.ts";

export interface FoundConflicts {
  /** By key of the listener, then of the route: one for each of its rules. Without the routes that have no conflict. */
  readonly byListener: ReadonlyMap<string, ReadonlyMap<string, readonly RuleReach[]>>;
  /** Hostnames, over all listeners, whose routes were not compared because that would take too long. */
  readonly unexamined: number;
}

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

interface Surroundings extends OtherListeners {
  readonly entriesOf: (route: ConflictRoute) => readonly MatchEntry[];
  readonly reader: MatchReader;
  readonly pace: Pace;
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
  const groups = yield* groupsOf(listener, { routes, entries }, surroundings, pace);
  const groupCounts = routes.map(() => 0);
  for (const { tiers } of groups) {
    for (const place of tiers.flatMap((tier) => tier.routes)) {
      groupCounts[place] = (groupCounts[place] ?? 0) + 1;
      if (pace.isOver(1)) yield;
    }
  }
  return new ListenerAnalysis({ listener, routes, entries, inputSize, groups, groupCounts, reader, pace });
}
