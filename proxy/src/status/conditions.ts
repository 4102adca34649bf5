/**
 * Conditions of a status over time: when each last changed, and which are new since they were last reported. Pure: the
 * writers for the API server and for the log ask here what to write.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import type { Steps } from "@gatewayproxy/runtime/steps";
import type {
  BackendTlsPolicyStatus,
  Condition,
  GatewayStatus,
  ListenerSetStatus,
  PolicyStatus,
  Statuses,
} from "../api/status.ts";

/** A condition as the Kubernetes API keeps it. */
export interface TimedCondition extends Condition {
  /** RFC 3339. The time at which `status` last changed; a change of the message does not count. */
  readonly lastTransitionTime: string;
}

/**
 * Merges the conditions to write with those in the API: first the conditions of this controller in their order, each
 * with the time of its last transition, then unchanged those of other writers.
 *
 * @param ownedTypes types that this controller writes. One that is not in `desired` is removed.
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

/** One condition of one object, as file mode logs it. */
export interface StatusLine {
  /** `HTTPRoute default/chat` */
  readonly resource: string;
  /** What the condition refers to: the parent Gateway, the target of the policy, or the listener. */
  readonly of?: string;
  readonly condition: string;
  readonly status: Condition["status"];
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number;
}

/**
 * Computes the lines of `statuses` that differ from those of `before`, in the order of the statuses. A condition that
 * is gone since its object was deleted is not reported.
 */
export function* changedStatusLines(statuses: Statuses, before: Statuses | undefined): Steps<readonly StatusLine[]> {
  const reported = new Set<string>();
  for (const line of before === undefined ? [] : statusLines(before)) {
    reported.add(JSON.stringify(line));
    yield;
  }
  const changed: StatusLine[] = [];
  for (const line of statusLines(statuses)) {
    if (!reported.has(JSON.stringify(line))) changed.push(line);
    yield;
  }
  return changed;
}

/** Yields each condition as a line. It is a generator, since there may be thousands. */
export function* statusLines(statuses: Statuses): Generator<StatusLine, undefined, undefined> {
  const { gatewayClasses, gateways, listenerSets, httpRoutes, backendTlsPolicies, proxyPolicies, backends } = statuses;
  for (const { name, conditions } of gatewayClasses) yield* lines(`GatewayClass ${name}`, undefined, conditions);
  for (const status of gateways) yield* linesWithListeners("Gateway", status);
  for (const status of listenerSets) yield* linesWithListeners("ListenerSet", status);
  for (const { namespace, name, parents } of httpRoutes) {
    for (const { parentRef, conditions } of parents) {
      const { kind, sectionName, port } = parentRef;
      const parent = `${kind} ${parentRef.namespace ?? namespace}/${parentRef.name}`;
      yield* lines(`HTTPRoute ${namespace}/${name}`, parent + section(sectionName) + portSuffix(port), conditions);
    }
  }
  for (const status of backendTlsPolicies) yield* linesWithAncestors("BackendTLSPolicy", status);
  for (const status of proxyPolicies) yield* linesWithAncestors("ProxyPolicy", status);
  for (const { namespace, name, conditions } of backends) {
    yield* lines(`Backend ${namespace}/${name}`, undefined, conditions);
  }
}

function linesWithAncestors(
  kind: string,
  { namespace, name, ancestors }: PolicyStatus | BackendTlsPolicyStatus,
): readonly StatusLine[] {
  return ancestors.flatMap(({ ancestorRef, conditions }) => {
    const target = `${ancestorRef.kind} ${objectKey(ancestorRef)}`;
    return lines(`${kind} ${namespace}/${name}`, target + section(ancestorRef.sectionName), conditions);
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

function section(name: string | undefined): string {
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
