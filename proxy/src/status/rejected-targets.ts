/**
 * Policies whose target the parser rejects. The translation does not get such a target and reports that it does not
 * exist, so users would search for a mistake in the name. Pure.
 */
import { type RejectedResource, renderErrors } from "../api/rejected-resource.ts";
import type { AncestorStatus, PolicyStatus } from "../api/status.ts";
import { textOf } from "../kube/object.ts";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { identityOf } from "./rejected-object.ts";

/** Replaces "not found" by the rejection of the target in the statuses of policies. */
export function withRejectedTargets(
  policies: readonly PolicyStatus[],
  rejected: readonly RejectedResource[],
): readonly PolicyStatus[] {
  const rejections = new Map(
    rejected.flatMap((each): [string, RejectedResource][] => {
      const identity = identityOf(each);
      return identity === undefined ? [] : [[`${textOf(each.object["kind"])} ${objectKey(identity)}`, each]];
    }),
  );
  return policies.map((policy) => ({
    ...policy,
    ancestors: policy.ancestors.map((ancestor) => {
      const { kind, name } = ancestor.ancestorRef;
      // The targets of a policy are in its namespace.
      const rejection = rejections.get(`${kind} ${objectKey({ namespace: policy.namespace, name })}`);
      return rejection === undefined
        ? ancestor
        : withPendingTarget(ancestor, `${kind} ${name} is rejected: ${renderErrors(rejection.errors)}`);
    }),
  }));
}

function withPendingTarget(ancestor: AncestorStatus, message: string): AncestorStatus {
  return {
    ...ancestor,
    conditions: ancestor.conditions.map((condition) =>
      condition.reason === "TargetNotFound" ? { ...condition, reason: "Pending", message } : condition,
    ),
  };
}
