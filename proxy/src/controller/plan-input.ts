/**
 * Whether a plan is computed from the same objects. Most changes that a controller sees are statuses that it has written
 * itself, and a plan does not depend on them. Pure.
 */
import { isDeepStrictEqual } from "node:util";
import type { ResourceSet } from "../api/resource.ts";
import type { KubernetesConfiguration } from "../source/kubernetes/kubernetes-source.ts";

/** The part of a configuration from which a plan is computed. */
export type PlanInput = Pick<KubernetesConfiguration, "resources" | "rejected" | "unreadable">;

/** Whether two configurations have the same plan: they differ in statuses only. */
export function hasSamePlan(a: PlanInput, b: PlanInput): boolean {
  return (
    a === b ||
    (isDeepStrictEqual(a.unreadable, b.unreadable) &&
      isDeepStrictEqual(a.rejected, b.rejected) &&
      kindsOf(a.resources).every((kind) => isSameExceptStatus(a.resources[kind], b.resources[kind])))
  );
}

function kindsOf(resources: ResourceSet): readonly (keyof ResourceSet)[] {
  // The set has a list for each kind, and nothing else.
  return Object.keys(resources) as (keyof ResourceSet)[];
}

/** Unchanged objects of the cluster are identical values, so few are compared. */
function isSameExceptStatus(a: readonly object[], b: readonly object[]): boolean {
  return (
    a.length === b.length &&
    a.every((item, at) => {
      const other = b[at] ?? {};
      return item === other || isDeepStrictEqual(withoutStatus(item), withoutStatus(other));
    })
  );
}

function withoutStatus(object: object): object {
  return { ...object, status: undefined };
}
