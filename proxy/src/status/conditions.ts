/**
 * Compares conditions with earlier ones: computes the time of the last transition of each for the API server, and the
 * changed conditions for the log. Pure.
 */
import { differenceBetween } from "@gatewayproxy/runtime/lists";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { routeKinds } from "@gatewayproxy/runtime/route-key";
import type { Steps } from "@gatewayproxy/runtime/steps";
import {
  type BackendTlsPolicyStatus,
  type Condition,
  type GatewayStatus,
  type ListenerSetStatus,
  type PolicyStatus,
  routeLists,
  type RouteStatus,
  routeStatusesIn,
  type Statuses,
} from "../api/status.ts";

/** A condition with the time that the Kubernetes API requires. */
export interface TimedCondition extends Condition {
  /** RFC 3339. The time of the last change of `status`; a change of the message does not count. */
  readonly lastTransitionTime: string;
}

/**
 * Merges the desired conditions with those in the API. First are the conditions of this controller in their order, each
 * with the time of its last transition; then the conditions of other writers, unchanged.
 *
 * @param ownedTypes types that this controller writes. A condition of such a type that is not in `desired` is removed.
 * @param now RFC 3339
 */
export function mergeConditions(
  desired: readonly Condition[],
  current: readonly TimedCondition[],
  ownedTypes: readonly string[],
  now: string,
): readonly TimedCondition[] {
  const byType = new Map(current.map((condition) => [condition.type, condition]));
  const own = desired.map((condition): TimedCondition => {
    const before = byType.get(condition.type);
    const isUnchanged = before?.status === condition.status;
    return { ...condition, lastTransitionTime: isUnchanged ? before.lastTransitionTime : now };
  });
  const isOwned = (type: string) => ownedTypes.includes(type) || desired.some((condition) => condition.type === type);
  return [...own, ...current.filter(({ type }) => !isOwned(type))];
}

/** One condition of one object, in the form of a log line of file mode. */
export interface StatusLine {
  /** `HTTPRoute default/chat` */
  readonly resource: string;
  /**
   * The subject of the condition: the parent Gateway, the target of the policy, or the listener. Absent: the object.
   */
  readonly of?: string;
  readonly condition: string;
  readonly status: Condition["status"];
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
}

/**
 * Computes the lines of `statuses` that differ from those of `before`, in the order of the statuses. Conditions of
 * deleted objects are not reported.
 */
export function* changedStatusLines(statuses: Statuses, before: Statuses | undefined): Steps<readonly StatusLine[]> {
  // The status of an unchanged route is mostly the same value.
  const last = before === undefined ? [] : statusLines(withoutCommon(before, statuses));
  const current = before === undefined ? statuses : withoutCommon(statuses, before);
  const reported = new Set<string>();
  for (const line of last) {
    reported.add(JSON.stringify(line));
    yield;
  }
  const changed: StatusLine[] = [];
  for (const line of statusLines(current)) {
    if (!reported.has(JSON.stringify(line))) changed.push(line);
    yield;
  }
  return changed;
}

/** Returns statuses without those of routes that others have as the same values. */
function withoutCommon(statuses: Statuses, others: Statuses): Statuses {
  const lists = routeKinds.map((kind) => {
    const list = routeLists[kind];
    return [list, differenceBetween(others[list], statuses[list]).added] as const;
  });
  return { ...statuses, ...Object.fromEntries(lists) };
}

/** Yields each condition as a line. It is a generator, because there may be thousands of conditions. */
export function* statusLines(statuses: Statuses): Generator<StatusLine, undefined, undefined> {
  const { gatewayClasses, gateways, listenerSets, backendTlsPolicies, proxyPolicies, backends } = statuses;
  for (const { name, conditions } of gatewayClasses) yield* lines(`GatewayClass ${name}`, undefined, conditions);
  for (const status of gateways) yield* linesWithListeners("Gateway", status);
  for (const status of listenerSets) yield* linesWithListeners("ListenerSet", status);
  for (const [kind, status] of routeStatusesIn(statuses)) yield* linesWithParents(kind, status);
  for (const status of backendTlsPolicies) yield* linesWithAncestors("BackendTLSPolicy", status);
  for (const status of proxyPolicies) yield* linesWithAncestors("ProxyPolicy", status);
  for (const { namespace, name, conditions } of backends) {
    yield* lines(`Backend ${namespace}/${name}`, undefined, conditions);
  }
}

function* linesWithParents(kind: string, { namespace, name, parents }: RouteStatus): Generator<StatusLine> {
  for (const { parentRef, conditions } of parents) {
    const { kind: parentKind, sectionName, port } = parentRef;
    const parent = `${parentKind} ${parentRef.namespace ?? namespace}/${parentRef.name}`;
    yield* lines(`${kind} ${namespace}/${name}`, parent + sectionSuffix(sectionName) + portSuffix(port), conditions);
  }
}

function linesWithAncestors(
  kind: string,
  { namespace, name, ancestors }: PolicyStatus | BackendTlsPolicyStatus,
): readonly StatusLine[] {
  return ancestors.flatMap(({ ancestorRef, conditions }) => {
    const target = `${ancestorRef.kind} ${objectKey(ancestorRef)}`;
    return lines(`${kind} ${namespace}/${name}`, target + sectionSuffix(ancestorRef.sectionName), conditions);
  });
}

function linesWithListeners(
  kind: string,
  { namespace, name, conditions, listeners }: GatewayStatus | ListenerSetStatus,
): readonly StatusLine[] {
  const resource = `${kind} ${namespace}/${name}`;
  const ofListeners = listeners.flatMap((listener) =>
    lines(resource, `listener ${listener.name}`, listener.conditions),
  );
  return [...lines(resource, undefined, conditions), ...ofListeners];
}

function sectionSuffix(name: string | undefined): string {
  return name === undefined ? "" : `#${name}`;
}

function portSuffix(port: number | undefined): string {
  return port === undefined ? "" : `:${port}`;
}

function lines(resource: string, of: string | undefined, conditions: readonly Condition[]): readonly StatusLine[] {
  return conditions.map(({ type, ...rest }) => ({
    resource,
    ...(of === undefined ? {} : { of }),
    condition: type,
    ...rest,
  }));
}
