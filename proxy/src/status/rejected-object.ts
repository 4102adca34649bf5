/** Reads the identity of an object that the parser rejects. */
import type { RejectedResource } from "../api/rejected-resource.ts";
import { fieldsOf } from "../kube/object.ts";

/** The name of a namespaced object. */
export interface NamespacedName {
  readonly namespace: string;
  readonly name: string;
}

/** Returns namespace and name; undefined for an object without a namespace. */
export function identityOf({ object }: Pick<RejectedResource, "object">): NamespacedName | undefined {
  const { namespace, name } = fieldsOf(object["metadata"]);
  return typeof namespace === "string" && typeof name === "string" ? { namespace, name } : undefined;
}

/** Returns the `observedGeneration` of conditions on the object; empty if the object has no generation. */
export function observedGenerationOf({ object }: Pick<RejectedResource, "object">): {
  readonly observedGeneration?: number;
} {
  const { generation } = fieldsOf(object["metadata"]);
  return typeof generation === "number" ? { observedGeneration: generation } : {};
}
