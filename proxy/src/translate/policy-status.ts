/** Status of ProxyPolicies, one ancestor per target, so that each target's outcome is told by itself. */
import { controllerName, gatewayGroup } from "../api/names.ts";
import type { ProxyPolicy } from "../api/proxy-policy.ts";
import type { AncestorStatus, PolicyCondition, PolicyStatus } from "../api/status.ts";
import { observed } from "./finding.ts";
import type { PolicyState, TargetState } from "./policies.ts";

export function policyStatus({ policy, targets }: PolicyState): PolicyStatus {
  const { namespace, name } = policy.metadata;
  return { namespace, name, ancestors: targets.map((target) => ancestorStatus(policy, target)) };
}

function ancestorStatus(policy: ProxyPolicy, target: TargetState): AncestorStatus {
  const { kind, name, sectionName } = target.targetRef;
  const { namespace } = policy.metadata;
  const ref = { group: gatewayGroup, kind, namespace, name };
  return {
    ancestorRef: sectionName === undefined ? ref : { ...ref, sectionName },
    controllerName,
    conditions: [acceptedCondition(policy), attachedCondition(policy, target)],
  };
}

/** What of a policy this version does not enforce. */
export function unenforced(policy: ProxyPolicy): string | undefined {
  const { global } = policy.spec.traffic.rateLimit;
  return global === undefined ? undefined : "spec.traffic.rateLimit.global is not enforced by this version";
}

function acceptedCondition(policy: ProxyPolicy): PolicyCondition {
  const generation = observed(policy.metadata.generation);
  const fault = unenforced(policy);
  if (fault === undefined) {
    return { type: "Accepted", status: "True", reason: "Valid", message: "policy is accepted", ...generation };
  }
  if (countEntries(policy) === 0) {
    return { type: "Accepted", status: "False", reason: "Invalid", message: fault, ...generation };
  }
  return { type: "Accepted", status: "True", reason: "PartiallyValid", message: fault, ...generation };
}

function attachedCondition(policy: ProxyPolicy, { unattached }: TargetState): PolicyCondition {
  const generation = observed(policy.metadata.generation);
  if (unattached !== undefined) return { type: "Attached", status: "False", ...unattached, ...generation };
  const entries = countEntries(policy);
  if (entries === 0) {
    const message = "nothing of the policy is enforced";
    return { type: "Attached", status: "False", reason: "Pending", message, ...generation };
  }
  const message = entries === 1 ? "its local entry is enforced" : `all ${entries} local entries are enforced`;
  return { type: "Attached", status: "True", reason: "Attached", message, ...generation };
}

function countEntries({ spec }: ProxyPolicy): number {
  return spec.traffic.rateLimit.local.length;
}
