/** The statuses of routes, with an entry per parent of this controller. */
import type { RouteKind } from "@gatewayproxy/runtime/route-key";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { controllerName } from "../../api/names.ts";
import type { InvalidRuleReason, NotAcceptedReason, RouteCondition, RouteStatus } from "../../api/status.ts";
import type { ParentState } from "../route/attachment.ts";
import { eachObject } from "../each-object.ts";
import { listSome } from "@gatewayproxy/runtime/bounded-text";
import { conditionFrom, type Finding, joinMessages, observed } from "./finding.ts";
import { findingsOf, findingsWithoutEffect } from "./findings-table.ts";
import { nameKey } from "../index/object-names.ts";
import { decisionOf, isWhollyShadowed, type ResolvedConflicts } from "../route/route-conflicts.ts";
import { type AnyRouteState, routeOf, type RouteState } from "../route/routes.ts";
import type { StreamConflicts } from "../route/stream-conflicts.ts";
import type { StreamRouteState } from "../route/stream-routes.ts";
import type { RuleState } from "../route/rules.ts";

/** Returns the conditions of a route at a parent for what it loses to other routes. Each is only present with status True. */
type ConflictConditions<State extends AnyRouteState> = (state: State, parent: ParentState) => readonly RouteCondition[];

/** Returns a status for each route of a kind. A route may have several states. */
export function* routeStatuses<State extends AnyRouteState>(
  states: readonly State[],
  kind: RouteKind,
  conflictConditions: ConflictConditions<State>,
): Steps<RouteStatus[]> {
  const ofKind = states.filter(({ route }) => route.kind === kind);
  const parents = yield* eachObject(ofKind, routeOf, (state) => {
    return { route: state.route, own: parentStatuses(state, conflictConditions) };
  });
  return Array.from(Map.groupBy(parents, ({ route }) => nameKey(route)).values(), (ofRoute) => {
    const { namespace = "", name = "" } = ofRoute[0]?.route.metadata ?? {};
    return { namespace, name, parents: ofRoute.flatMap(({ own }) => own) };
  });
}

function parentStatuses<State extends AnyRouteState>(
  state: State,
  conflictConditions: ConflictConditions<State>,
): RouteStatus["parents"] {
  const resolved = resolvedCondition(state);
  return state.parents.map((parent) => ({
    parentRef: parent.parentRef,
    controllerName,
    conditions: [...routeConditions(state, parent, resolved), ...conflictConditions(state, parent)],
  }));
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

/** For HTTPRoutes and GRPCRoutes. */
export function requestConflictConditions(conflicts: ResolvedConflicts): ConflictConditions<RouteState> {
  return (state, { attachments }) => {
    const verdicts = conflicts.verdicts(state, attachments);
    if (verdicts.length === 0) return [];
    const type = isWhollyShadowed(state, verdicts) ? "Shadowed" : "PartiallyShadowed";
    const message = conflicts.describeForOwner(state, verdicts);
    const { generation } = state.route.metadata;
    return [{ type, status: "True", reason: decisionOf(verdicts), message, ...observed(generation) }];
  };
}

/** For TLSRoutes, TCPRoutes and UDPRoutes. */
export function streamConflictConditions(conflicts: StreamConflicts): ConflictConditions<StreamRouteState> {
  return (state, { attachments }) => {
    const loss = conflicts.lossOf(state, attachments);
    if (loss === undefined) return [];
    const { isWhole, reason, message } = loss;
    const type = isWhole ? "Shadowed" : "PartiallyShadowed";
    return [{ type, status: "True", reason, message, ...observed(state.route.metadata.generation) }];
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
