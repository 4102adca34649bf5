/** Statuses that have a list with entries of several controllers: what is ours of them, and what has to be written. */
import { isDeepStrictEqual } from "node:util";
import { fieldsOf } from "../kube/object.ts";
import type { ClusterStatuses } from "./cluster-statuses.ts";
import { desiredSharedList, type SharedEntry, type SharedList } from "./desired-status.ts";

/** What is ours of a status with a list that controllers share. */
export interface SharedStatus {
  readonly entries: readonly SharedEntry[];
  /** Fields beside the list. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Of an object that has nothing of ours. */
export const noStatus: SharedStatus = { entries: [], fields: {} };

/** By `namespace/name`. */
export function routeEntries({ httpRoutes }: ClusterStatuses): ReadonlyMap<string, SharedStatus> {
  return new Map(
    httpRoutes.map(({ namespace, name, parents }) => {
      const entries = parents.map(({ parentRef, conditions }) => ({ ref: { ...parentRef }, conditions }));
      return [`${namespace}/${name}`, { entries, fields: {} }];
    }),
  );
}

/** By `namespace/name`. */
export function policyEntries(
  policies: ClusterStatuses["backendTlsPolicies"] | ClusterStatuses["proxyPolicies"],
): ReadonlyMap<string, SharedStatus> {
  return new Map(
    policies.map((policy) => {
      const { namespace, name, ancestors } = policy;
      const entries = ancestors.map(({ ancestorRef, conditions }) => ({ ref: { ...ancestorRef }, conditions }));
      const fields = "summary" in policy ? { summary: policy.summary } : {};
      return [`${namespace}/${name}`, { entries, fields }];
    }),
  );
}

/** What of a status has to be written; undefined where all of it stands. */
export function sharedPatch(
  entries: readonly SharedEntry[],
  fields: SharedStatus["fields"],
  standing: unknown,
  list: SharedList,
  now: string,
): object | undefined {
  const desired = desiredSharedList(entries, standing, list, now);
  const before = fieldsOf(standing);
  const changed = Object.entries(fields).filter(([name, value]) => !isDeepStrictEqual(before[name], value));
  if (desired === undefined && changed.length === 0) return undefined;
  return { ...Object.fromEntries(changed), ...(desired !== undefined && { [list.list]: desired }) };
}
