/**
 * Status of a ProxyPolicy that the parser refuses though the API server has taken it: an expression that does not
 * compile, or a field of a newer CustomResourceDefinition. Its targets are told as far as they can be read.
 */
import { controllerName, gatewayGroup } from "../api/names.ts";
import { type RejectedResource, renderFaults } from "../api/rejected-resource.ts";
import type { AncestorStatus, PolicyStatus } from "../api/status.ts";

/** Undefined for an object of another kind, and for one of which no target can be read. */
export function rejectedPolicyStatus({ object, faults }: RejectedResource): PolicyStatus | undefined {
  const metadata = mapOf(object["metadata"]);
  const { namespace, name, generation } = metadata;
  if (object["kind"] !== "ProxyPolicy" || typeof namespace !== "string" || typeof name !== "string") return undefined;
  const observed = typeof generation === "number" ? { observedGeneration: generation } : {};
  const conditions: AncestorStatus["conditions"] = [
    { type: "Accepted", status: "False", reason: "Invalid", message: renderFaults(faults), ...observed },
    {
      type: "Attached",
      status: "False",
      reason: "Pending",
      message: "this version of the policy is not enforced",
      ...observed,
    },
  ];
  const targets = mapOf(object["spec"])["targetRefs"];
  const ancestors = (Array.isArray(targets) ? targets.map(mapOf) : []).flatMap(
    ({ kind, name: target, sectionName }): readonly AncestorStatus[] => {
      if (typeof kind !== "string" || typeof target !== "string") return [];
      const section = typeof sectionName === "string" ? { sectionName } : {};
      const ancestorRef = { group: gatewayGroup, kind, namespace, name: target, ...section };
      return [{ ancestorRef, controllerName, conditions }];
    },
  );
  return ancestors.length === 0 ? undefined : { namespace, name, ancestors };
}

function mapOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}
