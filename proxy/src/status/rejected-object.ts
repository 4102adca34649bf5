/** What can be read of an object that the parser refuses. */
import type { RejectedResource } from "../api/rejected-resource.ts";

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
  const { namespace, name } = mapOf(object["metadata"]);
  return typeof namespace === "string" && typeof name === "string" ? { namespace, name } : undefined;
}

/** `observedGeneration` as conditions have it. */
export function observedBy({ object }: Pick<RejectedResource, "object">): { readonly observedGeneration?: number } {
  const { generation } = mapOf(object["metadata"]);
  return typeof generation === "number" ? { observedGeneration: generation } : {};
}

export function mapOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

export function listOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.map(mapOf) : [];
}
