/**
 * Attaches ProxyPolicies to their targets. A policy is attached only where its entries are enforced on requests. A
 * target that does not exist, belongs to another controller or serves nothing has a finding instead.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import {
  type RouteKind,
  routeKey,
  routeKind,
  routeKinds,
  routeName,
  routeTitle,
} from "@gatewayproxy/runtime/route-key";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { PolicyTargetRef, ProxyPolicy } from "../../api/proxy-policy.ts";
import { type AuthenticationState, translateAuthentication } from "./authentication.ts";
import { AttachedLimits, type Limits } from "./attached-limits.ts";
import { eachObject, itself } from "../each-object.ts";
import type { GatewayState, ResolvedGateways } from "../gateway/gateways.ts";
import type { Pages } from "@gatewayproxy/runtime/lists";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { type GlobalState, globalLimitAt, translateGlobal } from "./global-limits.ts";
import { AuthenticatedTargets } from "./authenticated-targets.ts";
import { type Inapplicable, inapplicableParts } from "./applicability.ts";
import { Buckets } from "./buckets.ts";
import { type CredentialDemand, LimitBudget, noCredentialDemand } from "./limit-budget.ts";
import { localLimits, type Sharing } from "./limits.ts";
import type { BackendReferences } from "../backend/backends.ts";
import type { RefusedPolicies, TranslationContext } from "../context.ts";
import type { Finding } from "../status/finding.ts";
import type { FindingOf } from "../status/findings-table.ts";
import { nameKey, sortByAge } from "../index/object-names.ts";
import { isWhollyShadowed, type ResolvedConflicts } from "../route/route-conflicts.ts";
import { isServed } from "../route/rules.ts";
import { type AnyRouteState, indexRoutes, isAcceptedBy, isStreamState, type RouteState } from "../route/routes.ts";
import type { StreamConflicts } from "../route/stream-conflicts.ts";
import type { StreamRouteState } from "../route/stream-routes.ts";

/** A policy at one of its targets. */
export interface TargetState {
  readonly targetRef: PolicyTargetRef;
  /** Why it is not attached there; undefined if it is. */
  readonly rejection: TargetRejection | undefined;
  /** The parts of the policy that do not apply there; undefined if all do. */
  readonly inapplicable: Inapplicable | undefined;
  /** As `TranslationContext.forgetfulPlaces`, of those that serve the target. */
  readonly forgetfulPlaces: readonly string[];
}

type TargetRejection = Finding<"TargetNotFound" | "Pending" | "TooManyLimits" | "Shadowed" | "NotApplicable">;

/** A rejection without the path of its target. */
type Unattached = Omit<TargetRejection, "path">;

/** A policy with its result at each target. */
export interface PolicyState {
  readonly policy: ProxyPolicy;
  /** In the order of the targetRefs. */
  readonly targets: readonly TargetState[];
  /** Undefined if the policy has no global part. */
  readonly global: GlobalState | undefined;
  /** Whether it authenticates requests. */
  readonly authenticates: boolean;
  /** Of the global part, of authentication, and of expressions that read an identity that nothing verifies. */
  readonly findings: readonly FindingOf<"ProxyPolicy">[];
  readonly refusedPolicies: RefusedPolicies;
}

/** All policies, and the limits of each target. */
export interface AttachedPolicies {
  readonly policies: readonly PolicyState[];
  readonly limits: AttachedLimits;
}

/** The possible targets of policies, and what policies refer to. */
export interface PolicyTargets {
  readonly gateways: ResolvedGateways;
  readonly routes: Pages<RouteState>;
  readonly streams: Pages<StreamRouteState>;
  readonly references: BackendReferences;
  readonly conflicts: ResolvedConflicts;
  readonly streamConflicts: StreamConflicts;
}

/** Attaches all policies. */
export function* attachPolicies(
  context: TranslationContext,
  { gateways, routes: requestRoutes, streams, references, conflicts, streamConflicts }: PolicyTargets,
): Steps<AttachedPolicies> {
  const { readyReplicas, refusedPolicies, forgetfulPlaces, hints, placeOf } = context;
  const policies = context.index.resources.ProxyPolicy;
  const routes = indexRoutes(policies.length === 0 ? [] : [...requestRoutes, ...streams].flat());
  const placesOf = targetPlaces(placeOf, gateways, routes);
  const budget = new LimitBudget();
  const authentications = yield* translateAuthentications(context, placesOf, budget);
  const authenticated = new AuthenticatedTargets(policies, routes);
  const limits = new AttachedLimits(budget, placeOf);
  const buckets = new Buckets();
  const attached = yield* eachObject(sortByAge(policies), itself, (policy): PolicyState => {
    const { namespace } = policy.metadata;
    const hint: Hint = (kind, name, known) => hints.of(namespace, kind, name, known);
    const { value: global, findings: ofGlobal } = translateGlobal(context, references, policy);
    const { value: inBucket, findings: ofBuckets } = buckets.add(policy);
    const authentication = authentications.get(policy);
    const demand = demandOf(authentication);
    const closedBy = isClosed(policy, refusedPolicies) ? [nameKey(policy)] : [];
    const closes = (refusedPolicies === "Closed" && isEnforced(policy)) || authentication !== undefined;
    if (policy.spec.targetRefs.length === 0) limits.closeNamespace(namespace, closedBy);
    const targets = policy.spec.targetRefs.map((targetRef, index): TargetState => {
      const name = `${namespace}/${targetRef.name}`;
      const target = targetKey(targetRef.kind, name, targetRef.sectionName);
      const places = placesOf(policy, targetRef);
      const gateway = targetRef.kind === "Gateway" ? gateways.ours.get(name) : undefined;
      const inapplicable = inapplicableParts(policy, targetRef, gateway);
      const own = {
        ...limitsOf(policy, global, target, { readyReplicas, inBucket }),
        authentication: authentication === undefined ? [] : [{ ...authentication.authentication, target }],
        // Connections cannot be authenticated, and must not be served as if they were.
        closedBy: inapplicable?.needsAuthentication === true ? [nameKey(policy)] : closedBy,
      };
      const excess = limits.add({ policy, target, places, limits: own, closes, demand });
      const unattached: Unattached | undefined =
        excess === undefined
          ? (resolveTarget(name, targetRef, { gateways, routes, conflicts, streamConflicts }, hint) ??
            notApplicable(inapplicable))
          : { reason: "TooManyLimits", message: excess };
      return {
        targetRef,
        rejection: unattached && { ...unattached, path: ["spec", "targetRefs", index] },
        inapplicable,
        forgetfulPlaces: places.filter((place) => forgetfulPlaces.has(place)),
      };
    });
    return {
      ...{ policy, targets, global, refusedPolicies },
      authenticates: authentication !== undefined,
      findings: [
        ...(authentication?.findings ?? []),
        ...[...ofGlobal, ...ofBuckets],
        ...authenticated.findingsOf(policy),
        ...targets.flatMap(findingOfInapplicable),
      ],
    };
  });
  return { policies: attached, limits };
}

/** Returns the authentication of every policy, and adds all demands to the budget. */
function* translateAuthentications(
  context: TranslationContext,
  placesOf: PlacesOf,
  budget: LimitBudget,
): Steps<ReadonlyMap<ProxyPolicy, AuthenticationState | undefined>> {
  const authentications = new Map<ProxyPolicy, AuthenticationState | undefined>();
  yield* eachObject(context.index.resources.ProxyPolicy, itself, (policy) => {
    const state = translateAuthentication(context, policy);
    authentications.set(policy, state);
    for (const targetRef of policy.spec.targetRefs) {
      for (const place of placesOf(policy, targetRef)) budget.want(place, policy, demandOf(state));
    }
  });
  return authentications;
}

function demandOf(state: AuthenticationState | undefined): CredentialDemand {
  if (state === undefined) return noCredentialDemand;
  return { keySets: state.keySets, apiKeys: state.authentication.apiKeys?.keys.length ?? 0 };
}

/** Returns the names of the processes that serve a target; empty if no Gateway of this controller serves it. */
type PlacesOf = (policy: ProxyPolicy, target: PolicyTargetRef) => readonly string[];

function targetPlaces(
  placeOf: TranslationContext["placeOf"],
  gateways: ResolvedGateways,
  routes: ReadonlyMap<string, readonly AnyRouteState[]>,
): PlacesOf {
  // A route may be the target of thousands of policies, and be attached to thousands of listeners.
  const ofRoute = memoised((states: readonly AnyRouteState[]): readonly string[] => {
    const attachments = states.flatMap(({ parents }) => parents.flatMap((parent) => parent.attachments));
    return [...new Set(attachments.map(({ listener }) => placeOf(listener.gateway)))];
  });
  return ({ metadata: { namespace } }, { kind, name }) => {
    if (kind !== "Gateway") return ofRoute(routes.get(routeKey(kind, { namespace, name })) ?? noStates);
    const gateway = gateways.ours.get(objectKey({ namespace, name }))?.gateway;
    return gateway === undefined ? [] : [placeOf(gateway)];
  };
}

const noStates: readonly AnyRouteState[] = [];

/** The limits of a policy at one target. */
function limitsOf(
  policy: ProxyPolicy,
  global: GlobalState | undefined,
  target: string,
  sharing: Sharing,
): Pick<Limits, "local" | "global"> {
  const limit = global === undefined ? undefined : globalLimitAt(policy, global, target, sharing);
  return { local: localLimits(policy, target, sharing), global: limit === undefined ? [] : [limit] };
}

/** Whether a policy can deny requests: it has an entry that is not in mode Shadow. */
function isEnforced({ spec }: ProxyPolicy): boolean {
  const { local, global } = spec.traffic.rateLimit;
  return global?.mode === "Enforce" || local.some(({ mode }) => mode === "Enforce");
}

/** Whether a policy is invalid, has no known valid version, and could deny requests. */
export function isUnreadable({ isRejected }: ProxyPolicy): boolean {
  return isRejected === true;
}

/** Whether a policy closes its targets: it cannot be read, and its limits or its authentication would be missing. */
function isClosed(policy: ProxyPolicy, refusedPolicies: RefusedPolicies): boolean {
  if (policy.hasUnreadableAuthentication === true) return true;
  return refusedPolicies === "Closed" && isUnreadable(policy);
}

/** Returns the name of a target in limits: kind, `namespace/name`, and the section if there is one. */
export function targetKey(kind: PolicyTargetRef["kind"], name: string, section?: string): string {
  return section === undefined ? `${kind}/${name}` : `${kind}/${name}#${section}`;
}

/** `NameHints.of` for the namespace of the policy. */
type Hint = (kind: string, name: string, known: Iterable<string>) => string;

/**
 * Whether a Gateway serves any listener, including those of ListenerSets. It may be the target of thousands of
 * policies.
 */
const isServing = memoised(({ listeners, sets }: GatewayState) =>
  [listeners, ...sets.map((set) => set.listeners)].some((list) => list.some(({ isProgrammed }) => isProgrammed)),
);

/** What targets are resolved among. */
interface KnownTargets extends Pick<PolicyTargets, "gateways" | "conflicts" | "streamConflicts"> {
  readonly routes: ReadonlyMap<string, readonly AnyRouteState[]>;
}

/** Returns why a policy is not attached to a target; undefined if it is. @param name `namespace/name` of the target. */
function resolveTarget(
  name: string,
  targetRef: PolicyTargetRef,
  known: KnownTargets,
  hint: Hint,
): Unattached | undefined {
  const { kind } = targetRef;
  if (kind === "Gateway") return resolveGatewayTarget(name, targetRef, known.gateways, hint);
  const [namespace = ""] = name.split("/", 1);
  return resolveRouteTargets(routeKey(kind, { namespace, name: targetRef.name }), targetRef, known, hint);
}

function resolveGatewayTarget(
  name: string,
  { sectionName }: PolicyTargetRef,
  gateways: ResolvedGateways,
  hint: Hint,
): Unattached | undefined {
  const known = gateways.all.get(name);
  if (known === undefined) {
    return missing(`Gateway ${name} does not exist${hint("Gateway", name, gateways.all.keys())}`);
  }
  const state = gateways.ours.get(name);
  if (state === undefined) {
    return pending(`Gateway ${name} is of class ${known.spec.gatewayClassName}, which belongs to another controller`);
  }
  if (sectionName === undefined) {
    return isServing(state) ? undefined : notServed(`no listener of Gateway ${name} is programmed`);
  }
  const listener = state.listeners.find((candidate) => candidate.listener.name === sectionName);
  if (listener === undefined) return notFound(`Gateway ${name} has no listener ${sectionName}`);
  return listener.isProgrammed ? undefined : notServed(`listener ${sectionName} of Gateway ${name} is not programmed`);
}

/** The names of all routes. Thousands of policies may have targets that do not exist. */
const namesByKind = memoised((routes: KnownTargets["routes"]): ReadonlyMap<RouteKind, readonly string[]> => {
  const names = new Map<RouteKind, string[]>(routeKinds.map((kind) => [kind, []]));
  for (const key of routes.keys()) names.get(routeKind(key))?.push(routeName(key));
  return names;
});

/** Undefined if any state of the route is served. */
function resolveRouteTargets(
  key: string,
  targetRef: PolicyTargetRef,
  known: KnownTargets,
  hint: Hint,
): Unattached | undefined {
  const { routes } = known;
  const states = routes.get(key) ?? [];
  if (states.length === 0) {
    const kind = routeKind(key);
    const names = namesByKind(routes).get(kind) ?? [];
    return missing(`${routeTitle(key)} does not exist${hint(kind, routeName(key), names)}`);
  }
  const resolved = states.map((state) => resolveRouteTarget(routeTitle(key), targetRef, state, known));
  return resolved.includes(undefined) ? undefined : resolved[0];
}

function resolveRouteTarget(
  title: string,
  { sectionName }: PolicyTargetRef,
  route: AnyRouteState,
  { conflicts, streamConflicts }: KnownTargets,
): Unattached | undefined {
  // Rules may have no name, and a target without a section selects all of them.
  const rules: readonly AnyRouteState["rules"][number][] = route.rules;
  const index = sectionName === undefined ? -1 : rules.findIndex(({ rule: { name: own } }) => own === sectionName);
  const rule = rules[index];
  if (sectionName !== undefined && rule === undefined) return notFound(`${title} has no rule ${sectionName}`);
  const accepting = route.parents.filter((parent) => isAcceptedBy(route, parent));
  if (accepting.length === 0) return notServed(`no Gateway of this controller accepts ${title}`);
  const isServing = accepting.some(({ attachments }) => attachments.some(({ listener }) => listener.isProgrammed));
  if (!isServing) return notServed(`no listener of ${title} is programmed`);
  if (sectionName !== undefined && rule !== undefined && !isServed(rule)) {
    return pending(`rule ${sectionName} of ${title} is not served`);
  }
  return isStreamState(route)
    ? shadowedStream(route, index, streamConflicts)
    : shadowed(route, route.rules[index], conflicts);
}

function shadowedStream(state: StreamRouteState, index: number, conflicts: StreamConflicts): Unattached | undefined {
  if (index > 0) return pending(`rule ${index} of ${state.route.kind} ${nameKey(state.route)} gets no connections`);
  const loss = conflicts.lossOf(
    state,
    state.parents.flatMap(({ attachments }) => attachments),
  );
  if (loss?.isWhole !== true) return undefined;
  return { reason: "Shadowed", message: `it limits no connection: ${loss.message}` };
}

/** The limits stay attached to a target that no request reaches, and would apply to one. */
function shadowed(
  route: RouteState,
  rule: RouteState["rules"][number] | undefined,
  conflicts: ResolvedConflicts,
): Unattached | undefined {
  const attachments = route.parents.flatMap((parent) => parent.attachments);
  const verdicts = conflicts.verdicts(route, attachments);
  const own = verdicts.filter(({ index }) => rule === undefined || route.rules[index] === rule);
  const isReached = rule === undefined ? !isWhollyShadowed(route, own) : own.every(({ isReachable }) => isReachable);
  if (own.length === 0 || isReached) return undefined;
  return { reason: "Shadowed", message: `it limits no request: ${conflicts.describeForOwner(route, own)}` };
}

/** Returns why a policy is not attached of which nothing applies, or not the authentication. */
function notApplicable(inapplicable: Inapplicable | undefined): Unattached | undefined {
  if (inapplicable === undefined) return undefined;
  const { isWhole, needsAuthentication, reason } = inapplicable;
  if (needsAuthentication) {
    return {
      reason: "NotApplicable",
      message: `${reason}; all connections are closed, since nothing can authenticate them`,
    };
  }
  return isWhole ? { reason: "NotApplicable", message: reason } : undefined;
}

/** Returns the finding of a target to which a part of the policy does not apply. */
function findingOfInapplicable(
  { targetRef, rejection, inapplicable }: TargetState,
  index: number,
): readonly Finding<"Invalid">[] {
  // A policy may be for all routes of a Gateway, each part for those of its kind.
  const isSplit = targetRef.kind === "Gateway" && targetRef.sectionName === undefined;
  if (inapplicable === undefined || isSplit || rejection !== undefined) return [];
  const message = `${inapplicable.reason}; ${inapplicable.parts.join(", ")} ${inapplicable.parts.length === 1 ? "has" : "have"} no effect there`;
  return [{ reason: "Invalid", message, path: ["spec", "targetRefs", index] }];
}

function missing(message: string): Unattached {
  return { reason: "TargetNotFound", message, code: "ReferentNotFound" };
}

function notFound(message: string): Unattached {
  return { reason: "TargetNotFound", message };
}

function notServed(message: string): Unattached {
  return { reason: "Pending", message, code: "TargetNotServed" };
}

function pending(message: string): Unattached {
  return { reason: "Pending", message };
}
