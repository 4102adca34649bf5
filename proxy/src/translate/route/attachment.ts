/**
 * Attaches routes to listeners (Gateway API `ParentReference`, `AllowedRoutes`): by the section and port of the
 * parentRef, then by `allowedRoutes` of the listener, then by host name. If one of these leaves no listener, it is the
 * reason why the route is not accepted.
 */
import { listSome } from "@gatewayproxy/runtime/bounded-text";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { ParentRef } from "../../api/http-route.ts";
import type { FieldPath } from "../../api/issue.ts";
import { gatewayGroup } from "../../api/names.ts";
import { type AnyRoute, hostnamesOf, resourceKey } from "../../api/resource.ts";
import { type ResourceProblem, resourceProblem } from "../../api/resource-problem.ts";
import type { NotAcceptedReason } from "../../api/status.ts";
import type { AttachmentBudget } from "./attachment-budget.ts";
import type { Finding } from "../status/finding.ts";
import type { ResolvedGateways } from "../gateway/gateways.ts";
import { commonHostnames } from "./hostnames.ts";
import type { ListenerState } from "../listener/listeners.ts";
import type { TranslationContext } from "../context.ts";
import { memoised, memoisedWith } from "@gatewayproxy/runtime/memoised";
import { allowsNamespace, type Labels, type NamespaceLabels } from "../index/namespaces.ts";

/** The part of a listener that decides whether a route may attach. */
export type OpenListener = Pick<ListenerState, "listener" | "owner" | "supportedKinds">;

/** A route at one listener. */
export interface Attachment<L extends OpenListener = ListenerState> {
  readonly listener: L;
  /** The host names of the route that intersect the listener's; empty for every host of the listener. */
  readonly hostnames: readonly string[];
}

/** The result of a parentRef to a Gateway of this controller, or to one of its ListenerSets. */
export interface ParentState {
  readonly parentRef: ParentRef;
  readonly path: FieldPath;
  /** Empty if it is rejected. */
  readonly attachments: readonly Attachment[];
  readonly rejection: Finding<NotAcceptedReason> | undefined;
  /** The names of listeners that do not serve it, since they have a route of another kind for some of its hosts. */
  readonly lostListeners?: readonly string[];
}

/**
 * Attaches a route to the Gateways of this controller, and to their ListenerSets. A step for each parentRef.
 *
 * @param budget undefined if no bound can be exceeded.
 */
export function* attachRoute(
  { index: { labelsOf }, hints }: TranslationContext,
  route: AnyRoute,
  gateways: ResolvedGateways,
  budget: AttachmentBudget | undefined,
): Steps<{ readonly parents: readonly ParentState[]; readonly problems: readonly ResourceProblem[] }> {
  const parents: ParentState[] = [];
  const problems: ResourceProblem[] = [];
  for (const [at, parentRef] of route.spec.parentRefs.entries()) {
    const { listeners, name, kind } = parentOf(route, parentRef, gateways);
    if (kind === undefined) continue;
    if (listeners !== undefined) {
      parents.push(attachToParent(route, { parentRef, at, listeners }, labelsOf, budget));
      yield;
    } else if (!kind.all.has(name)) {
      // No controller can write a status for a parent that does not exist, so only the problem reports it.
      const message = `${parentRef.kind} ${name} does not exist${hints.of(route.metadata.namespace, parentRef.kind, name, kind.ours.keys())}`;
      problems.push(resourceProblem(resourceKey(route), [...pathOf(at), "name"], message, "ReferentNotFound"));
      yield;
    }
  }
  return { parents, problems };
}

/** Adds the comparisons of a route to the budget. To be called for all routes before any is compared. */
export function wantComparisons(route: AnyRoute, gateways: ResolvedGateways, budget: AttachmentBudget): void {
  for (const parentRef of route.spec.parentRefs) {
    budget.wantComparisons(route, parentOf(route, parentRef, gateways).listeners?.length ?? 0);
  }
}

/** Adds the attachments of a route to the budget. To be called for all routes before any is attached. */
export function* wantAttachments(
  { index }: TranslationContext,
  route: AnyRoute,
  gateways: ResolvedGateways,
  budget: AttachmentBudget,
): Steps<void> {
  for (const parentRef of route.spec.parentRefs) {
    const { listeners } = parentOf(route, parentRef, gateways);
    const [first] = listeners ?? [];
    if (listeners === undefined || first === undefined) continue;
    // A demand above the capacity does not change the shares, so it is not counted further.
    if (budget.wantsAll(route, first) || budget.compare(route, parentRef, listeners.length) !== undefined) continue;
    const counted = countedListeners(parentRef, route, listeners, index.labelsOf(route.metadata.namespace));
    if (counted.kind === "attached") budget.want(route, first, counted.length);
    yield;
  }
}

/** A parent that does not exist. */
export const missingParent = "missing";

/**
 * Returns what the attachments of some routes depend on: the listeners of each of their parents, `missingParent`, or
 * undefined for one of another controller.
 */
export function parentsIn(
  routes: readonly AnyRoute[],
  { parents }: ResolvedGateways,
): readonly (readonly ListenerState[] | typeof missingParent | undefined)[] {
  return namedParents(routes).map(({ kind, name }) => {
    const ofKind = parents.get(kind);
    return ofKind?.ours.get(name) ?? (ofKind?.all.has(name) === false ? missingParent : undefined);
  });
}

/** Adds the numbers of comparisons of some routes with listeners, by the process that serves them. */
export function countComparisons(
  routes: readonly AnyRoute[],
  { parents }: ResolvedGateways,
  placeOf: TranslationContext["placeOf"],
  counts: Map<string, number>,
): void {
  for (const { kind, name, refs } of namedParents(routes)) {
    const listeners = parents.get(kind)?.ours.get(name);
    const [first] = listeners ?? [];
    if (listeners === undefined || first === undefined) continue;
    const place = placeOf(first.gateway);
    counts.set(place, (counts.get(place) ?? 0) + refs * listeners.length);
  }
}

/** The parents of some routes, each with the number of parentRefs to it. */
const namedParents = memoised((routes: readonly AnyRoute[]) => {
  const byKey = new Map<string, { readonly kind: string; readonly name: string; refs: number }>();
  for (const { spec, metadata } of routes) {
    for (const ref of spec.parentRefs) {
      if (ref.group !== gatewayGroup) continue;
      const name = parentName(ref, metadata.namespace);
      const key = JSON.stringify([ref.kind, name]);
      const known = byKey.get(key);
      if (known === undefined) byKey.set(key, { kind: ref.kind, name, refs: 1 });
      else known.refs++;
    }
  }
  return [...byKey.values()];
});

/** The parent of a parentRef: `listeners` only for one of this controller, `kind` only for a supported kind. */
function parentOf({ metadata }: AnyRoute, parentRef: ParentRef, gateways: ResolvedGateways) {
  const kind = parentRef.group === gatewayGroup ? gateways.parents.get(parentRef.kind) : undefined;
  const name = parentName(parentRef, metadata.namespace);
  return { kind, name, listeners: kind?.ours.get(name) };
}

const parentName = memoisedWith(({ namespace, name }: ParentRef, own: string): string => `${namespace ?? own}/${name}`);

interface Parent extends Pick<ParentState, "parentRef"> {
  /** The index of the parentRef. */
  readonly at: number;
  readonly listeners: readonly ListenerState[];
}

function pathOf(at: number): FieldPath {
  return ["spec", "parentRefs", at];
}

/** The same results while nothing changes on which they depend. */
const matchedListeners = memoisedWith(
  (parentRef: ParentRef, route: AnyRoute, listeners: readonly ListenerState[], ofNamespace: Labels) =>
    matchListeners(route, parentRef, listeners, () => ofNamespace),
);
/** The number of matched listeners, and the first. Routes that are beyond the bounds have many, which are not kept. */
const countedListeners = memoisedWith(
  (parentRef: ParentRef, route: AnyRoute, listeners: readonly ListenerState[], ofNamespace: Labels) => {
    const matched = matchListeners(route, parentRef, listeners, () => ofNamespace);
    if (matched.kind === "rejected") return matched;
    const { attachments } = matched;
    return { kind: matched.kind, length: attachments.length, first: attachments[0]?.listener };
  },
);
const acceptingParent = memoisedWith(
  (attachments: ParentState["attachments"], parentRef: ParentRef, at: number): ParentState => {
    return { parentRef, path: pathOf(at), attachments, rejection: undefined };
  },
);
const rejectingParent = memoisedWith(
  (parentRef: ParentRef, at: number, reason: NotAcceptedReason, message: string): ParentState => {
    const path = pathOf(at);
    return { parentRef, path, attachments: [], rejection: { reason, message, path } };
  },
);

function attachToParent(
  route: AnyRoute,
  { parentRef, at, listeners }: Parent,
  labels: NamespaceLabels,
  budget: AttachmentBudget | undefined,
): ParentState {
  const rejected = ({ reason, message }: Pick<Finding<NotAcceptedReason>, "reason" | "message">): ParentState =>
    rejectingParent(parentRef, at, reason, message);
  const uncompared = budget?.compare(route, parentRef, listeners.length);
  if (uncompared !== undefined) return rejected(uncompared);
  const ofNamespace = labels(route.metadata.namespace);
  if (budget !== undefined) {
    const counted = countedListeners(parentRef, route, listeners, ofNamespace);
    if (counted.kind === "rejected") return rejected(counted);
    const beyond = counted.first && budget.take(route, counted.first, counted.length);
    if (beyond !== undefined) return rejected(beyond);
  }
  const matched = matchedListeners(parentRef, route, listeners, ofNamespace);
  return matched.kind === "rejected" ? rejected(matched) : acceptingParent(matched.attachments, parentRef, at);
}

/** The listeners to which a parentRef attaches a route, or why there is none. */
export type MatchedListeners<L extends OpenListener> =
  | { readonly kind: "attached"; readonly attachments: readonly Attachment<L>[] }
  | { readonly kind: "rejected"; readonly reason: NotAcceptedReason; readonly message: string };

/** Returns the listeners of a parent to which the route attaches by one of its parentRefs. */
export function matchListeners<L extends OpenListener>(
  route: AnyRoute,
  parentRef: ParentRef,
  listeners: readonly L[],
  labels: NamespaceLabels,
): MatchedListeners<L> {
  const reject = (reason: NotAcceptedReason, message: string): MatchedListeners<L> => {
    return { kind: "rejected", reason, message };
  };
  if (listeners.length === 0) return reject("NoMatchingParent", `the ${parentRef.kind} is not accepted`);

  const named = listeners.filter(({ listener }) => isNamed(parentRef, listener));
  if (named.length === 0) {
    return reject("NoMatchingParent", `no listener of the ${parentRef.kind} ${describeAsked(parentRef)}`);
  }

  const allowing = named.filter((state) => allows(state, route, labels));
  if (allowing.length === 0) {
    const isKindAllowed = named.some((state) => acceptsKind(state, route));
    const routes = isKindAllowed ? `${route.kind}s of namespace ${route.metadata.namespace}` : `${route.kind}s`;
    return reject("NotAllowedByListeners", `${routes} may attach to ${describeListeners(parentRef, named, route)}`);
  }
  /** By host name of a listener, since most listeners have the same or none. */
  const common = new Map<string | undefined, readonly string[] | undefined>();
  const attachments = allowing.flatMap((listener): Attachment<L>[] => {
    const { hostname } = listener.listener;
    if (!common.has(hostname)) common.set(hostname, commonHostnames(hostname, hostnamesOf(route)));
    const hostnames = common.get(hostname);
    return hostnames === undefined ? [] : [{ listener, hostnames }];
  });
  if (attachments.length === 0) {
    const theirs = listSome(allowing.flatMap(({ listener }) => listener.hostname ?? []));
    const message = `hostnames ${listSome(hostnamesOf(route))} do not intersect the listeners' ${theirs}`;
    return reject("NoMatchingListenerHostname", message);
  }
  return { kind: "attached", attachments };
}

/** The names of the listeners are hidden from other namespaces, which may attach to none of them. */
function describeListeners(
  { kind, sectionName }: ParentRef,
  named: readonly OpenListener[],
  { metadata }: AnyRoute,
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
  const parts = [
    sectionName === undefined ? [] : `has the name ${sectionName}`,
    port === undefined ? [] : `has port ${port}`,
  ];
  return parts.flat().join(" and ");
}

function allows(state: OpenListener, route: AnyRoute, labels: NamespaceLabels): boolean {
  const own = state.owner.metadata.namespace;
  const { namespaces } = state.listener.allowedRoutes;
  return acceptsKind(state, route) && allowsNamespace(namespaces, own, route.metadata.namespace, labels);
}

function acceptsKind({ supportedKinds }: OpenListener, route: AnyRoute): boolean {
  return supportedKinds.some(({ group, kind }) => group === gatewayGroup && kind === route.kind);
}
