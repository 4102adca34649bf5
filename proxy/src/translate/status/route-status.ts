/** The statuses of routes, with an entry per parent of this controller. */
import type { RouteKind } from "@gatewayproxy/runtime/route-key";
import type { AnyRoute } from "../../api/resource.ts";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { controllerName } from "../../api/names.ts";
import type { InvalidRuleReason, NotAcceptedReason, RouteCondition, RouteStatus } from "../../api/status.ts";
import type { ParentState } from "../route/attachment.ts";
import { eachObject, eachPage } from "../each-object.ts";
import { listSome } from "@gatewayproxy/runtime/bounded-text";
import { conditionFrom, type Finding, joinMessages, observed } from "./finding.ts";
import { findingsOf, findingsWithoutEffect } from "./findings-table.ts";
import { joined, type Pages } from "@gatewayproxy/runtime/lists";
import { memoised, memoisedInSteps } from "@gatewayproxy/runtime/memoised";
import { decisionOf, isWhollyShadowed, type ResolvedConflicts } from "../route/route-conflicts.ts";
import { type AnyRouteState, routeOf, type RouteState } from "../route/routes.ts";
import type { StreamConflicts } from "../route/stream-conflicts.ts";
import type { StreamRouteState } from "../route/stream-routes.ts";
import type { RuleState } from "../route/rules.ts";

/** The conditions of routes for what they lose to others. Each is only present with status True. */
interface ConflictConditions<State extends AnyRouteState> {
  /** False if the route has no such condition at any parent. */
  readonly mayLose: (state: State) => boolean;
  /** Returns those of a route at a parent. */
  readonly of: (state: State, parent: ParentState) => readonly RouteCondition[];
}

/**
 * Returns a status for each route of a kind. A route may have several states.
 *
 * @param conflicts undefined: no route loses anything.
 */
export function* routeStatuses<State extends AnyRouteState>(
  states: Pages<State>,
  kind: RouteKind,
  conflicts: ConflictConditions<State> | undefined,
): Steps<readonly RouteStatus[]> {
  const pages = yield* eachPage(states, (page) =>
    conflicts !== undefined && page.some(conflicts.mayLose)
      ? statusesIn(page, (state) => statusOf(state, conflicts))
      : statusesWithoutLosses(page),
  );
  return joined(pages.map((ofPage) => ofPage.get(kind) ?? []));
}

const statusesWithoutLosses = memoisedInSteps((page: readonly AnyRouteState[]) =>
  statusesIn(page, statusWithoutLosses),
);

/** Returns the statuses of a page, which has all states of its routes, by kind. */
function* statusesIn<State extends AnyRouteState>(
  page: readonly State[],
  statusOfState: (state: State) => RouteStatus,
): Steps<ReadonlyMap<RouteKind, readonly RouteStatus[]>> {
  const byRoute = new Map<AnyRoute, RouteStatus>();
  yield* eachObject(page, routeOf, (state) => {
    const status = statusOfState(state);
    const before = byRoute.get(state.route);
    const parents = [...(before?.parents ?? []), ...status.parents];
    byRoute.set(state.route, before === undefined ? status : { ...status, parents });
  });
  const byKind = Map.groupBy(byRoute, ([{ kind }]) => kind);
  return new Map(Array.from(byKind, ([kind, all]) => [kind, all.map(([, status]) => status)]));
}

/** Returns the status of a route by one of its states. */
function statusOf<State extends AnyRouteState>(state: State, conflicts: ConflictConditions<State>): RouteStatus {
  if (!conflicts.mayLose(state)) return statusWithoutLosses(state);
  const losses = state.parents.map((parent) => conflicts.of(state, parent));
  // Few routes lose anything. The status of the others depends on nothing else.
  return losses.some((conditions) => conditions.length > 0) ? statusWith(state, losses) : statusWithoutLosses(state);
}

/** Returns the same status for the same state. */
const statusWithoutLosses = memoised((state: AnyRouteState): RouteStatus => statusWith(state, []));

/** @param losses the conditions of each parent for what the route loses there. */
function statusWith(state: AnyRouteState, losses: readonly (readonly RouteCondition[])[]): RouteStatus {
  const { namespace, name } = state.route.metadata;
  const resolved = resolvedCondition(state);
  const parents = state.parents.map((parent, index) => ({
    parentRef: parent.parentRef,
    controllerName,
    conditions: [...routeConditions(state, parent, resolved), ...(losses[index] ?? [])],
  }));
  return { namespace, name, parents };
}

/** Returns why a parent does not accept the route. No parent accepts a route without a valid rule. */
function acceptanceFindings(state: AnyRouteState, parent: ParentState): readonly Finding<NotAcceptedReason>[] {
  if (parent.rejection !== undefined) return [parent.rejection];
  return state.isSupported ? [] : state.rules.flatMap(rejectionsOf);
}

/** Returns why a rule is not served. */
function rejectionsOf({ findings }: Pick<RuleState, "findings">): readonly Finding<InvalidRuleReason>[] {
  return findingsOf("Rule", "Accepted", findings);
}

/** The same condition for all parents, since a route has up to 256 references. */
function resolvedCondition({ route, rules }: AnyRouteState): RouteCondition {
  const resolved = { type: "ResolvedRefs", reason: "ResolvedRefs", message: "all references are resolved" } as const;
  return conditionFrom(
    resolved,
    rules.flatMap(({ findings }) => findingsOf("Rule", "ResolvedRefs", findings)),
    route.metadata.generation,
  );
}

function routeConditions(
  state: AnyRouteState,
  parent: ParentState,
  resolved: RouteCondition,
): readonly RouteCondition[] {
  const { generation } = state.route.metadata;
  const findings = acceptanceFindings(state, parent);
  const unsupported = state.rules.flatMap((rule) => findingsWithoutEffect("Rule", rule.findings));
  const message = joinMessages([...servingMessage(parent), ...unsupported]);
  const conditions: RouteCondition[] = [
    conditionFrom({ type: "Accepted", reason: "Accepted", message }, findings, generation),
    resolved,
  ];
  const invalidRules = state.rules.flatMap((rule, index) => {
    const rejections = rejectionsOf(rule);
    return rejections.length === 0 ? [] : [{ rejections, index }];
  });
  if (findings.length === 0 && invalidRules.length > 0) {
    // The API requires this prefix for rules that are not served, which includes responses with 500.
    const rules = invalidRules.map(({ rejections, index }) => `${index} (${joinMessages(rejections)})`).join(", ");
    const dropped = `Dropped Rule ${rules}: requests that match it get 500`;
    conditions.push({
      type: "PartiallyInvalid",
      status: "True",
      reason: "UnsupportedValue",
      message: dropped,
      ...observed(generation),
    });
  }
  return conditions;
}

/** For HTTPRoutes and GRPCRoutes; undefined if none of them loses anything. */
export function requestConflictConditions(conflicts: ResolvedConflicts): ConflictConditions<RouteState> | undefined {
  if (conflicts.isEmpty) return undefined;
  return {
    mayLose: ({ route }) => conflicts.mayLose(route),
    of: (state, { attachments }) => {
      const verdicts = conflicts.verdicts(state, attachments);
      if (verdicts.length === 0) return [];
      const type = isWhollyShadowed(state, verdicts) ? "Shadowed" : "PartiallyShadowed";
      const message = conflicts.describeForOwner(state, verdicts);
      const { generation } = state.route.metadata;
      return [{ type, status: "True", reason: decisionOf(verdicts), message, ...observed(generation) }];
    },
  };
}

/** For TLSRoutes, TCPRoutes and UDPRoutes. */
export function streamConflictConditions(conflicts: StreamConflicts): ConflictConditions<StreamRouteState> {
  return {
    mayLose: () => true,
    of: (state, { attachments }) => {
      const loss = conflicts.lossOf(state, attachments);
      if (loss === undefined) return [];
      const { isWhole, reason, message } = loss;
      const type = isWhole ? "Shadowed" : "PartiallyShadowed";
      return [{ type, status: "True", reason, message, ...observed(state.route.metadata.generation) }];
    },
  };
}

/** The API requires Accepted True at a listener that is not programmed, so the message reports such listeners. */
function servingMessage({ attachments, lostListeners = [] }: ParentState): readonly { readonly message: string }[] {
  const silent = attachments
    .filter(({ listener }) => !listener.isProgrammed)
    .map(({ listener }) => listener.listener.name);
  const because = (names: readonly string[], reason: string) =>
    names.length === 0 ? [] : [{ message: `not served by listener ${listSome(names)}, ${reason}` }];
  return [
    { message: "route is accepted" },
    ...because(silent, "which is not programmed"),
    ...because(lostListeners, "which has a route of another kind for some of its hosts"),
  ];
}
