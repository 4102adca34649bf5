/**
 * Messages of policies whose target is not served by a Gateway yet. Such a policy is attached, but not enforced yet.
 * Pure.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import {
  type AncestorStatus,
  type Condition,
  isTrue,
  type ParentStatus,
  type PolicyStatus,
  type RouteStatuses,
  routeStatusesIn,
  type Statuses,
} from "../api/status.ts";

type ParentStatuses = Pick<Statuses, "gateways" | "listenerSets"> & RouteStatuses;

/**
 * Completes the message of attached policies while no Gateway or ListenerSet of the target is programmed: adds which
 * one is missing. The policy stays attached, because its limits apply from the first request.
 *
 * @param statuses of routes and their parents, with their current `Programmed` condition.
 */
export function* withPending(
  policies: readonly PolicyStatus[],
  statuses: ParentStatuses,
): Steps<readonly PolicyStatus[]> {
  const programmed = new Map<string, boolean>();
  const add = (kind: string, each: { namespace: string; name: string; conditions: readonly Condition[] }) =>
    programmed.set(`${kind} ${objectKey(each)}`, isTrue(each.conditions, "Programmed"));
  for (const gateway of statuses.gateways) add("Gateway", gateway);
  for (const set of statuses.listenerSets) add("ListenerSet", set);
  if (policies.length === 0) return policies;
  // All parents are programmed, so all policies are enforced.
  if (![...programmed.values()].includes(false)) return policies;
  const parents = new Map<string, readonly ParentStatus[]>();
  for (const [kind, route] of routeStatusesIn(statuses)) parents.set(`${kind} ${objectKey(route)}`, route.parents);
  return yield* mapInSteps(policies, (policy) => ({
    ...policy,
    ancestors: policy.ancestors.map((ancestor) => {
      const { kind, namespace, name } = ancestor.ancestorRef;
      const key = objectKey({ namespace, name });
      const parentKeys =
        kind === "Gateway" ? [`Gateway ${key}`] : acceptingParents(parents.get(`${kind} ${key}`) ?? [], namespace);
      const [first] = parentKeys;
      if (first === undefined || parentKeys.some((parentKey) => programmed.get(parentKey) !== false)) return ancestor;
      return withAttachedSuffix(ancestor, `once ${first} is programmed`);
    }),
  }));
}

/** Returns the parents that accept a route, as `Gateway namespace/name`. */
function acceptingParents(parents: readonly ParentStatus[], namespace: string): readonly string[] {
  return parents
    .filter(({ conditions }) => isTrue(conditions, "Accepted"))
    .map(({ parentRef }) => `${parentRef.kind} ${parentRef.namespace ?? namespace}/${parentRef.name}`);
}

function withAttachedSuffix(ancestor: AncestorStatus, suffix: string): AncestorStatus {
  const conditions = ancestor.conditions.map((condition) =>
    condition.type === "Attached" && condition.status === "True"
      ? { ...condition, message: `${condition.message} ${suffix}` }
      : condition,
  );
  return { ...ancestor, conditions };
}
