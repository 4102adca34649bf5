/**
 * Finds rules that no request can reach, and rules that lose some of their requests to another rule. The result is only
 * reported, in statuses and dumps: it never changes which rule serves a request or which limits apply. Rules are
 * ordered by `precedence.ts`; hostnames are matched by `host-table.ts`.
 *
 * Three kinds of conflict are found:
 *
 * - Two matches at one hostname are identical. The one of lower precedence gets no request. A match of higher
 *   precedence can cover another one completely only if they are identical, because everything that raises precedence
 *   (a longer path, a method, one more header) also narrows the match. So comparing texts is enough, and takes linear
 *   time.
 * - Two matches have equal precedence but different headers or query parameters (`overlaps.ts`). Requests that satisfy
 *   both go to one of them.
 * - A match at a more specific hostname covers a match at a wider one, on a listener whose own hostname is as specific
 *   (`conflicts/cover.ts`).
 *
 * Two regular expressions count as equal only if their texts are equal. So no report is false, but a rule that another
 * expression covers is not reported.
 *
 * Time and memory grow with the size of the routes, not with the number of listeners: listeners with the same routes
 * are analysed once (`conflicts/contest.ts`), within a budget of comparisons and results (`conflicts/budget.ts`).
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import { type Budget, budgetFor, namespaceOf } from "./conflicts/budget.ts";
import { Comparison } from "./conflicts/comparison.ts";
import { type Contest, contestsOf, type ContestTools, type Group, HostOwners } from "./conflicts/contest.ts";
import type { ConflictListener, FoundConflicts, ListenerConflicts } from "./conflicts/findings.ts";
import { MatchReader } from "./match-entry.ts";
import { Pace } from "./pace.ts";
import type { PathRules } from "./path-rules.ts";

/** Routes, hostnames and rules to visit in one step. A step takes well below a millisecond. */
export const workPerStep = 200;

/** Finds the conflicts of all routes together. @param pathRules how the paths of requests are normalised. */
export function* findRouteConflicts(
  listeners: readonly ConflictListener[],
  pathRules: PathRules,
  reader = new MatchReader(pathRules),
  budgetOf = budgetFor,
): Steps<FoundConflicts> {
  const tools = { owners: new HostOwners(listeners), reader, pace: new Pace(workPerStep) };
  const { contests, inputSize } = yield* contestsOf(listeners, tools);
  const budget = budgetOf(inputSize, yield* demandsOf(contests, tools.pace));
  const { comparisons, unexamined } = yield* compareAll(contests, budget, tools);
  const byListener = new Map<string, ListenerConflicts>();
  for (const { contest, losses } of comparisons) {
    if (losses.isEmpty) continue;
    for (const listener of contest.listeners) byListener.set(listener, losses);
    if (tools.pace.endsStep(contest.listeners.length)) yield;
  }
  return { byListener, unexamined };
}

/** The comparisons of several contests. */
interface Compared {
  readonly comparisons: readonly Comparison[];
  /** The number of hostnames, summed over all listeners, for which the budget was too small. */
  readonly unexamined: number;
}

/** Compares the routes of several contests with each other. */
export function* compareAll(
  contests: readonly Contest[],
  budget: Budget,
  { reader, pace }: ContestTools,
): Steps<Compared> {
  const comparisons = contests.map((contest) => new Comparison(contest, { budget, reader, pace }));
  let unexamined = 0;
  for (const { comparison, group } of yield* cheapestFirst(comparisons, pace)) {
    const isWhole = yield* comparison.examine(group);
    if (!isWhole) unexamined += group.hostnames * comparison.contest.listeners.length;
    if (pace.endsStep(1)) yield;
  }
  return { comparisons, unexamined };
}

/** Returns the number of matches to compare for the routes of each namespace. */
export function* demandsOf(contests: readonly Contest[], pace: Pace): Steps<ReadonlyMap<string, number>> {
  const demands = new Map<string, number>();
  for (const { routes, entries, groupCounts } of contests) {
    for (const [position, { key }] of routes.entries()) {
      const namespace = namespaceOf(key);
      const demand = (entries[position]?.length ?? 0) * (groupCounts[position] ?? 0);
      demands.set(namespace, (demands.get(namespace) ?? 0) + demand);
      if (pace.endsStep(1)) yield;
    }
  }
  return demands;
}

interface GroupToCompare {
  readonly comparison: Comparison;
  readonly group: Group;
}

/**
 * Returns the groups in the order of their cost, so that an expensive group cannot use up the budget before the cheap
 * ones.
 */
function* cheapestFirst(comparisons: readonly Comparison[], pace: Pace): Steps<Iterable<GroupToCompare>> {
  const byCost = new Map<number, GroupToCompare[]>();
  for (const comparison of comparisons) {
    for (const group of comparison.contest.groups) {
      const equal = byCost.get(group.cost);
      if (equal === undefined) byCost.set(group.cost, [{ comparison, group }]);
      else equal.push({ comparison, group });
      if (pace.endsStep(1)) yield;
    }
  }
  const costs = [...byCost.keys()].sort((a, b) => a - b);
  return costs.flatMap((cost) => byCost.get(cost) ?? []);
}
