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
 *
 * Time and memory are bounded by the text of the routes, whatever the number of listeners: listeners with the same routes
 * share a contest (`conflicts/contest.ts`), and what is compared and kept is paid for from one budget
 * (`conflicts/budget.ts`).
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { budgetFor, namespaceOf } from "./conflicts/budget.ts";
import { Comparison } from "./conflicts/comparison.ts";
import { type Contest, contestsOf, type Group } from "./conflicts/contest.ts";
import type { ConflictListener, FoundConflicts, ListenerConflicts } from "./conflicts/findings.ts";
import { Pace } from "./pace.ts";
import type { PathRules } from "./path-rules.ts";

/** In routes, hostnames and rules that are gone through; well below a millisecond. */
const workPerStep = 200;

/** @param pathRules how the paths of requests are normalised. */
export function* findRouteConflicts(
  listeners: readonly ConflictListener[],
  pathRules: PathRules,
): Steps<FoundConflicts> {
  const pace = new Pace(workPerStep);
  const { contests, inputSize, reader } = yield* contestsOf(listeners, pathRules, pace);
  const tools = { budget: budgetFor(inputSize, yield* demandsOf(contests, pace)), reader, pace };
  const comparisons = contests.map((contest) => new Comparison(contest, tools));
  let unexamined = 0;
  for (const { comparison, group } of yield* cheapestFirst(comparisons, pace)) {
    const isWhole = yield* comparison.examine(group);
    if (!isWhole) unexamined += group.hostnames * comparison.contest.listeners.length;
    if (pace.isOver(1)) yield;
  }
  const byListener = new Map<string, ListenerConflicts>();
  for (const { contest, losses } of comparisons) {
    if (losses.isEmpty) continue;
    for (const listener of contest.listeners) byListener.set(listener, losses);
    if (pace.isOver(contest.listeners.length)) yield;
  }
  return { byListener, unexamined };
}

/** Matches to compare, by namespace. */
function* demandsOf(contests: readonly Contest[], pace: Pace): Steps<ReadonlyMap<string, number>> {
  const demands = new Map<string, number>();
  for (const { routes, entries, groupCounts } of contests) {
    for (const [place, { key }] of routes.entries()) {
      const namespace = namespaceOf(key);
      const own = (entries[place]?.length ?? 0) * (groupCounts[place] ?? 0);
      demands.set(namespace, (demands.get(namespace) ?? 0) + own);
      if (pace.isOver(1)) yield;
    }
  }
  return demands;
}

interface PlacedGroup {
  readonly comparison: Comparison;
  readonly group: Group;
}

/** Small groups first: who declares few hostnames is served before who declares many. */
function* cheapestFirst(comparisons: readonly Comparison[], pace: Pace): Steps<Iterable<PlacedGroup>> {
  const byCost = new Map<number, PlacedGroup[]>();
  for (const comparison of comparisons) {
    for (const group of comparison.contest.groups) {
      const equal = byCost.get(group.cost);
      if (equal === undefined) byCost.set(group.cost, [{ comparison, group }]);
      else equal.push({ comparison, group });
      if (pace.isOver(1)) yield;
    }
  }
  const costs = [...byCost.keys()].sort((a, b) => a - b);
  return costs.flatMap((cost) => byCost.get(cost) ?? []);
}
