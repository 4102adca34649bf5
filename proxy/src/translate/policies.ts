/**
 * Attaches ProxyPolicies to what they name. A policy is attached where its entries are enforced on traffic, and
 * nowhere else: a target that does not exist, is not ours or serves nothing leaves it unattached, and says so.
 */
import type { Steps } from "@gatewayproxy/runtime/steps";
import type { PolicyTargetRef, ProxyPolicy } from "../api/proxy-policy.ts";
import type { GlobalLimit } from "../ir/global-limit.ts";
import type { LocalLimit } from "../ir/limit.ts";
import { eachObject, itself } from "./each-object.ts";
import type { GatewayState, JudgedGateways } from "./gateways.ts";
import { memoised } from "./memoised.ts";
import { type GlobalState, globalLimitAt, type TranslateGlobal } from "./global-limits.ts";
import { localLimits } from "./limits.ts";
import type { NameHints } from "./name-hints.ts";
import { nameKey, sortByAge } from "./object-names.ts";
import { isWhollyShadowed, type JudgedConflicts } from "./route-conflicts.ts";
import { indexRoutes, isAcceptedBy, type RouteState } from "./routes.ts";

/**
 * What becomes of the targets of a policy of which something that it enforces cannot be read: they answer 503, or are
 * served with what of the policy can be read.
 */
export type RefusedPolicies = "Closed" | "Open";

/**
 * Local entries, and global descriptors, of all policies on one target. Each costs every request there a counter or a part
 * of a call. The policies that go beyond it, youngest first, are refused there.
 */
export const maxLimitsPerTarget = 64;

/**
 * Maximum of local entries, global descriptors and fallback entries of the policies of one namespace, each counted once for
 * each target. A limit takes 3.4 KB of memory in the main thread and two workers together.
 */
export const maxLimitsPerNamespace = 16_384;

/** A policy at one of its targets. */
export interface TargetState {
  readonly targetRef: PolicyTargetRef;
  /** Undefined when attached. */
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
  /** Undefined where the policy has no global part. */
  readonly global: GlobalState | undefined;
  readonly refusedPolicies: RefusedPolicies;
}

/** What a policy, or several, put on one place. */
export interface Limits {
  readonly local: readonly LocalLimit[];
  readonly global: readonly GlobalLimit[];
  /** The first policies (`namespace/name`) that close the target, because something that they enforce is invalid. */
  readonly refused: readonly string[];
}

/** Policies that a closed target names. It is copied into every rule, and thousands of policies may close one route. */
const mostClosing = 8;

const withClosing = (names: readonly string[], more: readonly string[]): readonly string[] =>
  names.length >= mostClosing || more.length === 0 ? names : [...names, ...more];

export interface AttachedPolicies {
  readonly policies: readonly PolicyState[];
  /** Limits by target, oldest policy first: `HTTPRoute/namespace/name`, `Gateway/namespace/name#listener`. */
  readonly limits: ReadonlyMap<string, Limits>;
}

export interface PolicyContext {
  readonly gateways: JudgedGateways;
  readonly routes: readonly RouteState[];
  readonly translateGlobal: TranslateGlobal;
  /** Replicas of the proxy that share what is to be shared; at least 1. */
  readonly readyReplicas: number;
  readonly refusedPolicies: RefusedPolicies;
  readonly conflicts: JudgedConflicts;
  readonly hints: NameHints;
}

export function* attachPolicies(
  policies: readonly ProxyPolicy[],
  { gateways, routes, translateGlobal, readyReplicas, refusedPolicies, conflicts, hints }: PolicyContext,
): Steps<AttachedPolicies> {
  const routesByName = indexRoutes(routes);
  const limits = new Map<string, Limits>();
  const limitsOf = new Map<string, number>();
  const states = yield* eachObject(sortByAge(policies), itself, (policy): PolicyState => {
    const { namespace } = policy.metadata;
    const hint: Hint = (kind, name, known) => hints.of(namespace, kind, name, known);
    const global = translateGlobal(policy);
    const refused = refusedPolicies === "Closed" && isUnreadable(policy) ? [nameKey(policy)] : [];
    if (policy.spec.targetRefs.length === 0) {
      const place = anyRouteKey(namespace);
      const before = limits.get(place) ?? noLimits;
      limits.set(place, { ...before, refused: withClosing(before.refused, refused) });
    }
    const targets = policy.spec.targetRefs.map((targetRef): TargetState => {
      const name = `${namespace}/${targetRef.name}`;
      const target = targetKey(targetRef.kind, name, targetRef.sectionName);
      const before = limits.get(target) ?? noLimits;
      const { local, global: globals, refused: others } = before;
      const closes = refusedPolicies === "Closed" && isEnforced(policy);
      const leaveOut = (excess: string): TargetState => {
        limits.set(target, closes ? { ...before, refused: withClosing(others, [nameKey(policy)]) } : before);
        return { targetRef, unattached: tooMany(target, excess, closes) };
      };
      const size = sizeOf(policy);
      const total = (limitsOf.get(namespace) ?? 0) + size;
      if (total > maxLimitsPerNamespace) {
        return leaveOut(
          `namespace ${namespace} has ${total} limits at all targets, accepted are at most ${maxLimitsPerNamespace}`,
        );
      }
      const own = global === undefined ? undefined : globalLimitAt(policy, global, target, readyReplicas);
      const together: Limits = {
        local: [...local, ...localLimits(policy, target)],
        global: own === undefined ? globals : [...globals, own],
        refused: withClosing(others, refused),
      };
      const excess = excessOf(together);
      if (excess !== undefined) {
        return leaveOut(`${target} has ${excess}, accepted are at most ${maxLimitsPerTarget} of all policies together`);
      }
      limitsOf.set(namespace, total);
      limits.set(target, together);
      const unattached =
        targetRef.kind === "Gateway"
          ? judgeGatewayTarget(name, targetRef, gateways, hint)
          : judgeRouteTargets(name, targetRef, routesByName, conflicts, hint);
      return { targetRef, unattached };
    });
    return { policy, targets, global, refusedPolicies };
  });
  return { policies: states, limits };
}

/** The limits of a policy at one target. */
function sizeOf({ spec }: ProxyPolicy): number {
  const { local, global } = spec.traffic.rateLimit;
  return local.length + (global?.descriptors.length ?? 0) + (global?.fallback?.length ?? 0);
}

/** What there is too much of on one target, in words. */
function excessOf({ local, global }: Limits): string | undefined {
  const descriptors = global.reduce((sum, limit) => sum + limit.descriptors.length, 0);
  const fallbacks = global.reduce((sum, limit) => sum + limit.fallback.length, 0);
  if (local.length > maxLimitsPerTarget) return `${local.length} local entries`;
  if (descriptors > maxLimitsPerTarget) return `${descriptors} global descriptors`;
  return fallbacks > maxLimitsPerTarget ? `${fallbacks} fallback entries` : undefined;
}

/** Whether anything of a policy refuses requests; in mode Shadow it only watches. */
function isEnforced({ spec }: ProxyPolicy): boolean {
  const { local, global } = spec.traffic.rateLimit;
  return global?.mode === "Enforce" || local.some(({ mode }) => mode === "Enforce");
}

function tooMany(target: string, excess: string, closes: boolean): Unattached {
  const message =
    `with this policy ${excess}; ` +
    (closes ? `${target} responds with 503 (--refused-policies)` : `${target} is served without this policy`);
  return { reason: "TooManyLimits", message };
}

/** Of a place that no policy names. */
export const noLimits: Limits = { local: [], global: [], refused: [] };

/** Names every HTTPRoute of a namespace in limits: a policy whose targets cannot be read may be about any of them. */
export function anyRouteKey(namespace: string): string {
  return `HTTPRoute/${namespace}/*`;
}

/** Whether a policy is to refuse requests and cannot tell which: it cannot be read, and no sound version is known. */
export function isUnreadable({ isRejected }: ProxyPolicy): boolean {
  return isRejected === true;
}

/** Names a target in limits: kind, `namespace/name`, and the section if there is one. */
export function targetKey(kind: PolicyTargetRef["kind"], name: string, section?: string): string {
  return section === undefined ? `${kind}/${name}` : `${kind}/${name}#${section}`;
}

/** `NameHints.of` for the namespace of the policy. */
type Hint = (kind: string, name: string, known: Iterable<string>) => string;

/** Whether a Gateway serves any listener, its own or of a ListenerSet. Thousands of policies may name one Gateway. */
const isServing = memoised(({ listeners, sets }: GatewayState) =>
  [listeners, ...sets.map((set) => set.listeners)].some((list) => list.some(({ isProgrammed }) => isProgrammed)),
);

function judgeGatewayTarget(
  name: string,
  { sectionName }: PolicyTargetRef,
  gateways: JudgedGateways,
  hint: Hint,
): Unattached | undefined {
  const known = gateways.all.get(name);
  if (known === undefined) {
    return notFound(`Gateway ${name} does not exist${hint("Gateway", name, gateways.all.keys())}`);
  }
  const state = gateways.ours.get(name);
  if (state === undefined)
    return pending(`Gateway ${name} is of class ${known.spec.gatewayClassName}, which is not ours`);
  if (sectionName === undefined) {
    return isServing(state) ? undefined : pending(`no listener of Gateway ${name} is programmed`);
  }
  const listener = state.listeners.find((candidate) => candidate.listener.name === sectionName);
  if (listener === undefined) return notFound(`Gateway ${name} has no listener ${sectionName}`);
  return listener.isProgrammed ? undefined : pending(`listener ${sectionName} of Gateway ${name} is not programmed`);
}

/** Attached where any state of the route is. */
function judgeRouteTargets(
  name: string,
  targetRef: PolicyTargetRef,
  routes: ReadonlyMap<string, readonly RouteState[]>,
  conflicts: JudgedConflicts,
  hint: Hint,
): Unattached | undefined {
  const states = routes.get(name) ?? [];
  if (states.length === 0) {
    return notFound(`HTTPRoute ${name} does not exist${hint("HTTPRoute", name, routes.keys())}`);
  }
  const judged = states.map((state) => judgeRouteTarget(name, targetRef, state, conflicts));
  return judged.includes(undefined) ? undefined : judged[0];
}

function judgeRouteTarget(
  name: string,
  { sectionName }: PolicyTargetRef,
  route: RouteState,
  conflicts: JudgedConflicts,
): Unattached | undefined {
  // Rules need no name, and a target without a section is all of them.
  const rule =
    sectionName === undefined ? undefined : route.rules.find(({ rule: { name: own } }) => own === sectionName);
  if (sectionName !== undefined && rule === undefined) return notFound(`HTTPRoute ${name} has no rule ${sectionName}`);
  const accepting = route.parents.filter((parent) => isAcceptedBy(route, parent));
  if (accepting.length === 0) return pending(`no Gateway of this controller accepts HTTPRoute ${name}`);
  const isServing = accepting.some(({ attachments }) => attachments.some(({ listener }) => listener.isProgrammed));
  if (!isServing) return pending(`no listener that HTTPRoute ${name} attaches to is programmed`);
  if (sectionName !== undefined && rule !== undefined && rule.invalid.length > 0) {
    return pending(`rule ${sectionName} of HTTPRoute ${name} is not served`);
  }
  return shadowed(route, rule, conflicts);
}

/** The limits stay in force on a target that no request reaches; they would be enforced if one did. */
function shadowed(
  route: RouteState,
  rule: RouteState["rules"][number] | undefined,
  conflicts: JudgedConflicts,
): Unattached | undefined {
  const attachments = route.parents.flatMap((parent) => parent.attachments);
  const verdicts = conflicts.verdicts(route, attachments);
  const own = verdicts.filter(({ index }) => rule === undefined || route.rules[index] === rule);
  const isReached = rule === undefined ? !isWhollyShadowed(route, own) : own.every(({ isReachable }) => isReachable);
  if (own.length === 0 || isReached) return undefined;
  return { reason: "Shadowed", message: `nothing is limited by it: ${conflicts.describeForOwner(route, own)}` };
}

function notFound(message: string): Unattached {
  return { reason: "TargetNotFound", message };
}

function pending(message: string): Unattached {
  return { reason: "Pending", message };
}
