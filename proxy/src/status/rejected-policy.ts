/**
 * Status of a ProxyPolicy that the parser refuses though the API server has taken it: an expression that does not
 * compile, or a field of a newer CustomResourceDefinition. Its targets are told as far as they can be read.
 */
import { controllerName, gatewayGroup } from "../api/names.ts";
import { type RejectedResource, renderFaults } from "../api/rejected-resource.ts";
import type { AncestorStatus, PolicyStatus } from "../api/status.ts";
import { fieldsOf, objectsOf } from "../kube/object.ts";
import { identityOf, observedBy } from "./rejected-object.ts";

/** Undefined for an object of another kind, and for one of which no target can be read. */
export function rejectedPolicyStatus(
  rejected: RejectedResource,
  before: PolicyStatus | undefined,
): PolicyStatus | undefined {
  const { object, faults, inForce } = rejected;
  const identity = identityOf(rejected);
  if (object["kind"] !== "ProxyPolicy" || identity === undefined) return undefined;
  const observed = observedBy(rejected);
  const kept = inForce === "lastSoundVersion" ? "; the last sound one stays in force where it is known" : "";
  // What becomes of its targets where no version is known, translation tells.
  const judged = before?.ancestors.flatMap((each) => each.conditions).find(({ type }) => type === "Attached");
  const remains = inForce === "remains" && judged?.reason === "Pending" ? judged.message : undefined;
  const message = remains ?? `this version of the policy is not enforced${kept}`;
  const conditions: AncestorStatus["conditions"] = [
    { type: "Accepted", status: "False", reason: "Invalid", message: renderFaults(faults), ...observed },
    { type: "Attached", status: "False", reason: "Pending", message, ...observed },
  ];
  const ancestors = objectsOf(fieldsOf(object["spec"])["targetRefs"]).flatMap(
    ({ kind, name: target, sectionName }): readonly AncestorStatus[] => {
      if (typeof kind !== "string" || typeof target !== "string") return [];
      const section = typeof sectionName === "string" ? { sectionName } : {};
      const ancestorRef = { group: gatewayGroup, kind, namespace: identity.namespace, name: target, ...section };
      return [{ ancestorRef, controllerName, conditions }];
    },
  );
  return ancestors.length === 0 ? undefined : { ...identity, ancestors };
}
