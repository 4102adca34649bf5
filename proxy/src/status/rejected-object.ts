/** What can be read of an object that the parser refuses. */
import type { RejectedResource } from "../api/rejected-resource.ts";
import { fieldsOf } from "../kube/object.ts";

export interface Named {
  readonly namespace: string;
  readonly name: string;
}

/** `namespace/name` */
export function nameOf({ namespace, name }: Named): string {
  return `${namespace}/${name}`;
}

/** Undefined for an object without a namespace. */
export function identityOf({ object }: Pick<RejectedResource, "object">): Named | undefined {
  const { namespace, name } = fieldsOf(object["metadata"]);
  return typeof namespace === "string" && typeof name === "string" ? { namespace, name } : undefined;
}

/** `observedGeneration` as conditions have it. */
export function observedBy({ object }: Pick<RejectedResource, "object">): { readonly observedGeneration?: number } {
  const { generation } = fieldsOf(object["metadata"]);
  return typeof generation === "number" ? { observedGeneration: generation } : {};
}
