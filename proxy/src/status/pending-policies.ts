/** Policies on what no Gateway serves yet: their status does not say that they are enforced now. Pure. */
import { mapInSteps, type Steps } from "@gatewayproxy/runtime/steps";
import type { AncestorStatus, Condition, ParentStatus, PolicyStatus, Statuses } from "../api/status.ts";

type Judged = Pick<Statuses, "gateways" | "listenerSets" | "httpRoutes">;

/**
 * The policies, where those that are attached say on what they wait, as long as no Gateway or ListenerSet of their target
 * is programmed. They stay attached: their entries are in force for the first request.
 *
 * @param judged as they are told, with `Programmed` as it is.
 */
export function* withPending(policies: readonly PolicyStatus[], judged: Judged): Steps<readonly PolicyStatus[]> {
  const programmed = new Map<string, boolean>();
  const add = (kind: string, each: { namespace: string; name: string; conditions: readonly Condition[] }) =>
    programmed.set(`${kind} ${each.namespace}/${each.name}`, holds(each.conditions, "Programmed"));
  for (const gateway of judged.gateways) add("Gateway", gateway);
  for (const set of judged.listenerSets) add("ListenerSet", set);
  // All serve, so nothing waits.
  if (![...programmed.values()].includes(false)) return policies;
  const parents = new Map(judged.httpRoutes.map((route) => [`${route.namespace}/${route.name}`, route.parents]));
  return yield* mapInSteps(policies, (policy) => ({
    ...policy,
    ancestors: policy.ancestors.map((ancestor) => {
      const { kind, namespace, name } = ancestor.ancestorRef;
      const key = `${namespace}/${name}`;
      const servers = kind === "Gateway" ? [`Gateway ${key}`] : serversOf(parents.get(key) ?? [], namespace);
      const [first] = servers;
      if (first === undefined || servers.some((server) => programmed.get(server) !== false)) return ancestor;
      return waiting(ancestor, `once ${first} is programmed`);
    }),
  }));
}

/** What accepts a route, as `Gateway namespace/name`. */
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
