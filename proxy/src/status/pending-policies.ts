/** Messages of policies whose target no Gateway serves yet. Such a policy is attached, but not enforced yet. Pure. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { AncestorStatus, Condition, ParentStatus, PolicyStatus, Statuses } from "../api/status.ts";

type ParentStatuses = Pick<Statuses, "gateways" | "listenerSets" | "httpRoutes">;

/**
 * Adds what an attached policy waits for to its message, as long as no Gateway or ListenerSet of its target is
 * programmed. The policy stays attached: its limits apply from the first request.
 *
 * @param statuses of routes and their parents, with their current `Programmed` condition.
 */
export function* withPending(
  policies: readonly PolicyStatus[],
  statuses: ParentStatuses,
): Steps<readonly PolicyStatus[]> {
  const programmed = new Map<string, boolean>();
  const add = (kind: string, each: { namespace: string; name: string; conditions: readonly Condition[] }) =>
    programmed.set(`${kind} ${objectKey(each)}`, holds(each.conditions, "Programmed"));
  for (const gateway of statuses.gateways) add("Gateway", gateway);
  for (const set of statuses.listenerSets) add("ListenerSet", set);
  // Every parent is programmed, so no policy waits.
  if (![...programmed.values()].includes(false)) return policies;
  const parents = new Map(statuses.httpRoutes.map((route) => [objectKey(route), route.parents]));
  return yield* mapInSteps(policies, (policy) => ({
    ...policy,
    ancestors: policy.ancestors.map((ancestor) => {
      const { kind, namespace, name } = ancestor.ancestorRef;
      const key = objectKey({ namespace, name });
      const servers = kind === "Gateway" ? [`Gateway ${key}`] : serversOf(parents.get(key) ?? [], namespace);
      const [first] = servers;
      if (first === undefined || servers.some((server) => programmed.get(server) !== false)) return ancestor;
      return waiting(ancestor, `once ${first} is programmed`);
    }),
  }));
}

/** The parents that accept a route, as `Gateway namespace/name`. */
function serversOf(parents: readonly ParentStatus[], namespace: string): readonly string[] {
  return parents
    .filter(({ conditions }) => holds(conditions, "Accepted"))
    .map(({ parentRef }) => `${parentRef.kind} ${parentRef.namespace ?? namespace}/${parentRef.name}`);
}

function waiting(ancestor: AncestorStatus, on: string): AncestorStatus {
  const conditions = ancestor.conditions.map((condition) =>
    condition.type === "Attached" && condition.status === "True"
      ? { ...condition, message: `${condition.message} ${on}` }
      : condition,
  );
  return { ...ancestor, conditions };
}

function holds(conditions: readonly Condition[], type: string): boolean {
  return conditions.some((condition) => condition.type === type && condition.status === "True");
}
