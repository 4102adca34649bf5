/**
 * The status of a ProxyPolicy that the API server accepts and the parser rejects: an expression does not compile, or a
 * field is of a newer CustomResourceDefinition. The status has an entry for each target that can be read.
 */
import { controllerName, gatewayGroup } from "../api/names.ts";
import { type RejectedResource, renderErrors } from "../api/rejected-resource.ts";
import type { AncestorStatus, PolicyStatus } from "../api/status.ts";
import { fieldsOf, objectsOf } from "../kube/object.ts";
import { identityOf, observedGenerationOf } from "./rejected-object.ts";

/**
 * Returns the status; undefined for an object of another kind, and if no target can be read.
 *
 * @param before the status from the translation, of the version in force.
 */
export function rejectedPolicyStatus(
  rejected: RejectedResource,
  before: PolicyStatus | undefined,
): PolicyStatus | undefined {
  const { object, errors, inForce } = rejected;
  const identity = identityOf(rejected);
  if (object["kind"] !== "ProxyPolicy" || identity === undefined) return undefined;
  const observedGeneration = observedGenerationOf(rejected);
  const kept = inForce === "lastValidVersion" ? "; the last valid version stays in force where it is known" : "";
  // If no version is known, the translation reports the consequences for the targets.
  const translated = before?.ancestors.flatMap((each) => each.conditions).find(({ type }) => type === "Attached");
  const remains = inForce === "remains" && translated?.reason === "Pending" ? translated.message : undefined;
  const message = remains ?? `this version of the policy is not enforced${kept}`;
  const conditions: AncestorStatus["conditions"] = [
    { type: "Accepted", status: "False", reason: "Invalid", message: renderErrors(errors), ...observedGeneration },
    { type: "Attached", status: "False", reason: "Pending", message, ...observedGeneration },
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
