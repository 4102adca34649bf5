/**
 * Attaches ProxyPolicies to their targets. A policy is attached only where its entries are enforced on requests. A target that
 * does not exist, belongs to another controller or serves nothing has a finding instead.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { PolicyTargetRef, ProxyPolicy } from "../../api/proxy-policy.ts";
import type { Gateway } from "../../api/gateway.ts";
import { AttachedLimits, type Limits } from "./attached-limits.ts";
import { eachObject, itself } from "../each-object.ts";
import type { GatewayState, ResolvedGateways } from "../gateway/gateways.ts";
import { memoised } from "../memoised.ts";
import { type GlobalState, globalLimitAt, type TranslateGlobal } from "./global-limits.ts";
import { LimitBudget } from "./limit-budget.ts";
import { localLimits } from "./limits.ts";
import type { NameHints } from "../reference/name-hints.ts";
import { nameKey, sortByAge } from "../index/object-names.ts";
import { isWhollyShadowed, type ResolvedConflicts } from "../route/route-conflicts.ts";
import { indexRoutes, isAcceptedBy, type RouteState } from "../route/routes.ts";

/**
 * How the targets of an invalid policy are served: they respond with 503, or they are served with the valid part of the
 * policy.
 */
export type RefusedPolicies = "Closed" | "Open";

/** A policy at one of its targets. */
export interface TargetState {
  readonly targetRef: PolicyTargetRef;
  /** Undefined if it is attached. */
  readonly unattached: Unattached | undefined;
}

export interface Unattached {
  readonly reason: "TargetNotFound" | "Pending" | "TooManyLimits" | "Shadowed";
  readonly message: string;
}

export interface PolicyState {
  readonly policy: ProxyPolicy;
  /** In the order of the targetRefs. */
  readonly targets: readonly TargetState[];
  /** Undefined if the policy has no global part. */
  readonly global: GlobalState | undefined;
  readonly refusedPolicies: RefusedPolicies;
}

export interface AttachedPolicies {
  readonly policies: readonly PolicyState[];
  readonly limits: AttachedLimits;
}

export interface PolicyContext {
  readonly gateways: ResolvedGateways;
  readonly routes: readonly RouteState[];
  readonly translateGlobal: TranslateGlobal;
  /** Replicas of the proxy, which divide shared limits; at least 1. */
  readonly readyReplicas: number;
  readonly refusedPolicies: RefusedPolicies;
  readonly conflicts: ResolvedConflicts;
  readonly hints: NameHints;
  /** Names the process that serves a Gateway. */
  readonly placeOf: (gateway: Gateway) => string;
}

export function* attachPolicies(policies: readonly ProxyPolicy[], context: PolicyContext): Steps<AttachedPolicies> {
  const { gateways, translateGlobal, readyReplicas, refusedPolicies, conflicts, hints, placeOf } = context;
  const routes = indexRoutes(context.routes);
  const placesOf = targetPlaces(context, routes);
  const budget = new LimitBudget();
  yield* eachObject(policies, itself, (policy) => {
    for (const targetRef of policy.spec.targetRefs) {
      for (const place of placesOf(policy, targetRef)) budget.want(place, policy);
    }
  });
  const limits = new AttachedLimits(budget, placeOf);
  const states = yield* eachObject(sortByAge(policies), itself, (policy): PolicyState => {
    const { namespace } = policy.metadata;
    const hint: Hint = (kind, name, known) => hints.of(namespace, kind, name, known);
    const global = translateGlobal(policy);
    const closedBy = refusedPolicies === "Closed" && isUnreadable(policy) ? [nameKey(policy)] : [];
    const closes = refusedPolicies === "Closed" && isEnforced(policy);
    if (policy.spec.targetRefs.length === 0) limits.closeAnyRoute(namespace, closedBy);
    const targets = policy.spec.targetRefs.map((targetRef): TargetState => {
      const name = `${namespace}/${targetRef.name}`;
      const target = targetKey(targetRef.kind, name, targetRef.sectionName);
      const places = placesOf(policy, targetRef);
      const own = { ...limitsOf(policy, global, target, readyReplicas), closedBy };
      const excess = limits.add({ policy, target, places, limits: own, closes });
      if (excess !== undefined) return { targetRef, unattached: { reason: "TooManyLimits", message: excess } };
      const unattached =
        targetRef.kind === "Gateway"
          ? resolveGatewayTarget(name, targetRef, gateways, hint)
          : resolveRouteTargets(name, targetRef, routes, conflicts, hint);
      return { targetRef, unattached };
    });
    return { policy, targets, global, refusedPolicies };
  });
  return { policies: states, limits };
}

/** Returns the names of the processes that serve a target; empty if no Gateway of this controller serves it. */
function targetPlaces(
  { gateways, placeOf }: PolicyContext,
  routes: ReadonlyMap<string, readonly RouteState[]>,
): (policy: ProxyPolicy, target: PolicyTargetRef) => readonly string[] {
  // A route may be the target of thousands of policies, and be attached to thousands of listeners.
  const ofRoute = memoised((states: readonly RouteState[]): readonly string[] => {
    const attachments = states.flatMap(({ parents }) => parents.flatMap((parent) => parent.attachments));
    return [...new Set(attachments.map(({ listener }) => placeOf(listener.gateway)))];
  });
  return ({ metadata: { namespace } }, { kind, name }) => {
    const key = `${namespace}/${name}`;
    const gateway = gateways.ours.get(key)?.gateway;
    if (kind === "Gateway") return gateway === undefined ? [] : [placeOf(gateway)];
    return ofRoute(routes.get(key) ?? noStates);
  };
}

const noStates: readonly RouteState[] = [];

/** The limits of a policy at one target. */
function limitsOf(
  policy: ProxyPolicy,
  global: GlobalState | undefined,
  target: string,
  readyReplicas: number,
): Pick<Limits, "local" | "global"> {
  const limit = global === undefined ? undefined : globalLimitAt(policy, global, target, readyReplicas);
  return { local: localLimits(policy, target), global: limit === undefined ? [] : [limit] };
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

/** Returns the name of a target in limits: kind, `namespace/name`, and the section if there is one. */
export function targetKey(kind: PolicyTargetRef["kind"], name: string, section?: string): string {
  return section === undefined ? `${kind}/${name}` : `${kind}/${name}#${section}`;
}

/** `NameHints.of` for the namespace of the policy. */
type Hint = (kind: string, name: string, known: Iterable<string>) => string;

/** Whether a Gateway serves any listener, including those of ListenerSets. It may be the target of thousands of policies. */
const isServing = memoised(({ listeners, sets }: GatewayState) =>
  [listeners, ...sets.map((set) => set.listeners)].some((list) => list.some(({ isProgrammed }) => isProgrammed)),
);

function resolveGatewayTarget(
  name: string,
  { sectionName }: PolicyTargetRef,
  gateways: ResolvedGateways,
  hint: Hint,
): Unattached | undefined {
  const known = gateways.all.get(name);
  if (known === undefined) {
    return notFound(`Gateway ${name} does not exist${hint("Gateway", name, gateways.all.keys())}`);
  }
  const state = gateways.ours.get(name);
  if (state === undefined) {
    return pending(`Gateway ${name} is of class ${known.spec.gatewayClassName}, which belongs to another controller`);
  }
  if (sectionName === undefined) {
    return isServing(state) ? undefined : pending(`no listener of Gateway ${name} is programmed`);
  }
  const listener = state.listeners.find((candidate) => candidate.listener.name === sectionName);
  if (listener === undefined) return notFound(`Gateway ${name} has no listener ${sectionName}`);
  return listener.isProgrammed ? undefined : pending(`listener ${sectionName} of Gateway ${name} is not programmed`);
}

/** Undefined if any state of the route is served. */
function resolveRouteTargets(
  name: string,
  targetRef: PolicyTargetRef,
  routes: ReadonlyMap<string, readonly RouteState[]>,
  conflicts: ResolvedConflicts,
  hint: Hint,
): Unattached | undefined {
  const states = routes.get(name) ?? [];
  if (states.length === 0) {
    return notFound(`HTTPRoute ${name} does not exist${hint("HTTPRoute", name, routes.keys())}`);
  }
  const resolved = states.map((state) => resolveRouteTarget(name, targetRef, state, conflicts));
  return resolved.includes(undefined) ? undefined : resolved[0];
}

function resolveRouteTarget(
  name: string,
  { sectionName }: PolicyTargetRef,
  route: RouteState,
  conflicts: ResolvedConflicts,
): Unattached | undefined {
  // Rules may have no name, and a target without a section selects all of them.
  const rule =
    sectionName === undefined ? undefined : route.rules.find(({ rule: { name: own } }) => own === sectionName);
  if (sectionName !== undefined && rule === undefined) return notFound(`HTTPRoute ${name} has no rule ${sectionName}`);
  const accepting = route.parents.filter((parent) => isAcceptedBy(route, parent));
  if (accepting.length === 0) return pending(`no Gateway of this controller accepts HTTPRoute ${name}`);
  const isServing = accepting.some(({ attachments }) => attachments.some(({ listener }) => listener.isProgrammed));
  if (!isServing) return pending(`no listener of HTTPRoute ${name} is programmed`);
  if (sectionName !== undefined && rule !== undefined && rule.invalid.length > 0) {
    return pending(`rule ${sectionName} of HTTPRoute ${name} is not served`);
  }
  return shadowed(route, rule, conflicts);
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

function notFound(message: string): Unattached {
  return { reason: "TargetNotFound", message };
}

function pending(message: string): Unattached {
  return { reason: "Pending", message };
}
