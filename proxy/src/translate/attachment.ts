/**
 * Which listeners take which routes (Gateway API `ParentReference`, `AllowedRoutes`): by the parentRef's section and
 * port, then by what the listener allows, then by host name. The first of these that leaves no listener is the reason
 * why the route is not accepted.
 */
import { listSome } from "@gatewayproxy/runtime/bounded-text";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { HttpRoute, ParentRef } from "../api/http-route.ts";
import type { FieldPath } from "../api/issue.ts";
import { gatewayGroup } from "../api/names.ts";
import { resourceKey } from "../api/resource.ts";
import { type ResourceProblem, resourceProblem } from "../api/resource-problem.ts";
import type { NotAcceptedReason } from "../api/status.ts";
import type { AttachmentBudget } from "./attachment-budget.ts";
import type { Finding } from "./finding.ts";
import type { ResolvedGateways } from "./gateways.ts";
import { commonHostnames } from "./hostnames.ts";
import type { ListenerState } from "./listeners.ts";
import type { NameHints } from "./name-hints.ts";
import { allowsNamespace, type NamespaceLabels } from "./namespaces.ts";

/** What decides whether a listener takes a route. */
export type OpenListener = Pick<ListenerState, "listener" | "owner" | "supportedKinds">;

/** A route at one listener. */
export interface Attachment<L extends OpenListener = ListenerState> {
  readonly listener: L;
  /** Of the route, as far as they concern the listener; empty for every host of it. */
  readonly hostnames: readonly string[];
}

/** How one parentRef that names a Gateway of ours, or a ListenerSet of one, fared. */
export interface ParentState {
  readonly parentRef: ParentRef;
  readonly path: FieldPath;
  /** Empty where refused. */
  readonly attachments: readonly Attachment[];
  readonly rejection: Finding<NotAcceptedReason> | undefined;
}

/** Attaches one route to the Gateways of ours, and to their ListenerSets, that its parentRefs name. A step for each. */
export function* attachRoute(
  route: HttpRoute,
  gateways: ResolvedGateways,
  labels: NamespaceLabels,
  budget: AttachmentBudget,
  hints: NameHints,
): Steps<{ readonly parents: readonly ParentState[]; readonly problems: readonly ResourceProblem[] }> {
  const parents: ParentState[] = [];
  const problems: ResourceProblem[] = [];
  for (const [index, parentRef] of route.spec.parentRefs.entries()) {
    const { listeners, name, kind } = parentOf(route, parentRef, gateways);
    if (kind === undefined) continue;
    const path = ["spec", "parentRefs", index];
    if (listeners !== undefined) {
      parents.push(attachToParent(route, { parentRef, path, listeners }, labels, budget));
      yield;
    } else if (!kind.all.has(name)) {
      // No controller can write a status for a parent that does not exist, so the problem is all that tells.
      const message = `${parentRef.kind} ${name} does not exist${hints.of(route.metadata.namespace, parentRef.kind, name, kind.ours.keys())}`;
      problems.push(resourceProblem(resourceKey(route), [...path, "name"], message));
      yield;
    }
  }
  return { parents, problems };
}

/** Tells the budget with how many listeners the route is to be compared; before any route is. */
export function wantComparisons(route: HttpRoute, gateways: ResolvedGateways, budget: AttachmentBudget): void {
  for (const parentRef of route.spec.parentRefs) {
    budget.wantComparisons(route, parentOf(route, parentRef, gateways).listeners?.length ?? 0);
  }
}

/** Tells the budget how many attachments the route wants; before any route is attached. */
export function* wantAttachments(
  route: HttpRoute,
  gateways: ResolvedGateways,
  labels: NamespaceLabels,
  budget: AttachmentBudget,
): Steps<void> {
  for (const parentRef of route.spec.parentRefs) {
    const { listeners } = parentOf(route, parentRef, gateways);
    const [first] = listeners ?? [];
    if (listeners === undefined || first === undefined) continue;
    // What goes beyond the whole changes no share, and need not be counted.
    if (budget.wantsAll(route, first) || budget.compare(route, parentRef, listeners.length) !== undefined) continue;
    const matched = matchListeners(route, parentRef, listeners, labels);
    if (matched.kind === "attached") budget.want(route, first, matched.attachments.length);
    yield;
  }
}

/** The parent that a parentRef names; `listeners` only of one of ours, `kind` only of a kind that we know. */
function parentOf({ metadata }: HttpRoute, parentRef: ParentRef, gateways: ResolvedGateways) {
  const kind = parentRef.group === gatewayGroup ? gateways.parents.get(parentRef.kind) : undefined;
  const name = `${parentRef.namespace ?? metadata.namespace}/${parentRef.name}`;
  return { kind, name, listeners: kind?.ours.get(name) };
}

interface Parent extends Pick<ParentState, "parentRef" | "path"> {
  readonly listeners: readonly ListenerState[];
}

function attachToParent(
  route: HttpRoute,
  { parentRef, path, listeners }: Parent,
  labels: NamespaceLabels,
  budget: AttachmentBudget,
): ParentState {
  const refused = ({ reason, message }: Pick<Finding<NotAcceptedReason>, "reason" | "message">): ParentState => {
    return { parentRef, path, attachments: [], rejection: { reason, message, path } };
  };
  const uncompared = budget.compare(route, parentRef, listeners.length);
  if (uncompared !== undefined) return refused(uncompared);
  const matched = matchListeners(route, parentRef, listeners, labels);
  if (matched.kind === "refused") return refused(matched);
  const { attachments } = matched;
  const [first] = attachments;
  const beyond = first && budget.take(route, first.listener, attachments.length);
  return beyond === undefined ? { parentRef, path, attachments, rejection: undefined } : refused(beyond);
}

export type MatchedListeners<L extends OpenListener> =
  | { readonly kind: "attached"; readonly attachments: readonly Attachment<L>[] }
  | { readonly kind: "refused"; readonly reason: NotAcceptedReason; readonly message: string };

/** Those of a parent's listeners that take the route, by one of its references to the parent. */
export function matchListeners<L extends OpenListener>(
  route: HttpRoute,
  parentRef: ParentRef,
  listeners: readonly L[],
  labels: NamespaceLabels,
): MatchedListeners<L> {
  const refuse = (reason: NotAcceptedReason, message: string): MatchedListeners<L> => {
    return { kind: "refused", reason, message };
  };
  if (listeners.length === 0) return refuse("NoMatchingParent", `the ${parentRef.kind} is not accepted`);

  const named = listeners.filter(({ listener }) => isNamed(parentRef, listener));
  if (named.length === 0)
    return refuse("NoMatchingParent", `no listener of the ${parentRef.kind} ${describeAsked(parentRef)}`);

  const allowing = named.filter((state) => allows(state, route, labels));
  if (allowing.length === 0) {
    const routes = named.some(takesHttpRoutes) ? `HTTPRoutes of namespace ${route.metadata.namespace}` : "HTTPRoutes";
    return refuse("NotAllowedByListeners", `${routes} may attach to ${describeListeners(parentRef, named, route)}`);
  }
  /** By host name of a listener: most listeners have the same, or none. */
  const common = new Map<string | undefined, readonly string[] | undefined>();
  const attachments = allowing.flatMap((listener): Attachment<L>[] => {
    const { hostname } = listener.listener;
    if (!common.has(hostname)) common.set(hostname, commonHostnames(hostname, route.spec.hostnames));
    const hostnames = common.get(hostname);
    return hostnames === undefined ? [] : [{ listener, hostnames }];
  });
  if (attachments.length === 0) {
    const theirs = listSome(allowing.flatMap(({ listener }) => listener.hostname ?? []));
    const message = `hostnames ${listSome(route.spec.hostnames)} have nothing in common with the listeners' ${theirs}`;
    return refuse("NoMatchingListenerHostname", message);
  }
  return { kind: "attached", attachments };
}

/** Another namespace, which may attach to none of the listeners, is not told what they are called. */
function describeListeners(
  { kind, sectionName }: ParentRef,
  named: readonly OpenListener[],
  { metadata }: HttpRoute,
): string {
  if (sectionName !== undefined) return `none of the listeners ${sectionName}`;
  if (named.some(({ owner }) => owner.metadata.namespace !== metadata.namespace)) {
    return `none of the ${kind}'s listeners`;
  }
  return `none of the listeners ${listSome(named.map(({ listener }) => listener.name))}`;
}

function isNamed(ref: ParentRef, listener: { readonly name: string; readonly port: number }): boolean {
  return (
    (ref.sectionName === undefined || ref.sectionName === listener.name) &&
    (ref.port === undefined || ref.port === listener.port)
  );
}

function describeAsked({ sectionName, port }: ParentRef): string {
  const asked = [
    sectionName === undefined ? [] : `has the name ${sectionName}`,
    port === undefined ? [] : `has port ${port}`,
  ];
  return asked.flat().join(" and ");
}

function allows(state: OpenListener, route: HttpRoute, labels: NamespaceLabels): boolean {
  const own = state.owner.metadata.namespace;
  const { namespaces } = state.listener.allowedRoutes;
  return takesHttpRoutes(state) && allowsNamespace(namespaces, own, route.metadata.namespace, labels);
}

function takesHttpRoutes({ supportedKinds }: OpenListener): boolean {
  return supportedKinds.some(({ group, kind }) => group === gatewayGroup && kind === "HTTPRoute");
}
