/**
 * Policies whose target the parser refuses. Translation has not seen such a target and finds that it does not exist,
 * which would send people to look for a name that is right. Pure.
 */
import { type RejectedResource, renderFaults } from "../api/rejected-resource.ts";
import type { AncestorStatus, PolicyStatus } from "../api/status.ts";
import { textOf } from "../kube/object.ts";
import { identityOf, nameOf } from "./rejected-object.ts";

/** The statuses of policies, with the refusal of a target in the place of its absence. */
export function withRefusedTargets(
  policies: readonly PolicyStatus[],
  rejected: readonly RejectedResource[],
): readonly PolicyStatus[] {
  const refusals = new Map(
    rejected.flatMap((each): [string, string][] => {
      const identity = identityOf(each);
      return identity === undefined
        ? []
        : [[`${textOf(each.object["kind"])} ${nameOf(identity)}`, renderFaults(each.faults)]];
    }),
  );
  return policies.map((policy) => ({
    ...policy,
    ancestors: policy.ancestors.map((ancestor) => {
      const { kind, name } = ancestor.ancestorRef;
      // A policy's targets are in its own namespace.
      const refusal = refusals.get(`${kind} ${nameOf({ namespace: policy.namespace, name })}`);
      return refusal === undefined ? ancestor : waiting(ancestor, `${kind} ${name} is refused: ${refusal}`);
    }),
  }));
}

function waiting(ancestor: AncestorStatus, message: string): AncestorStatus {
  return {
    ...ancestor,
    conditions: ancestor.conditions.map((condition) =>
      condition.reason === "TargetNotFound" ? { ...condition, reason: "Pending", message } : condition,
    ),
  };
}
