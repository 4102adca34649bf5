/**
 * Statuses with a list that has entries of several controllers: the entries of this controller, and the patch to write.
 */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { isDeepStrictEqual } from "node:util";
import { fieldsOf } from "../kube/object.ts";
import type { ClusterStatuses } from "./cluster-statuses.ts";
import { memoised } from "@gatewayproxy/runtime/memoised";
import { desiredSharedList, type SharedEntry, type SharedList } from "./desired-status.ts";

/** The part of such a status that this controller writes. */
export interface SharedStatus {
  readonly entries: readonly SharedEntry[];
  /** Fields beside the list. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** The status of an object without entries of this controller. */
export const noStatus: SharedStatus = { entries: [], fields: {} };

/** Returns the entries of a route: the same for the same status. */
export const entriesOfRoute = memoised(({ parents }: ClusterStatuses["httpRoutes"][number]): SharedStatus => {
  const entries = parents.map(({ parentRef, conditions }) => ({ ref: { ...parentRef }, conditions }));
  return { entries, fields: {} };
});

/** Returns the entries of policies by `namespace/name`. */
export function policyEntries(
  policies: ClusterStatuses["backendTlsPolicies"] | ClusterStatuses["proxyPolicies"],
): ReadonlyMap<string, SharedStatus> {
  return new Map(
    policies.map((policy) => {
      const { namespace, name, ancestors } = policy;
      const entries = ancestors.map(({ ancestorRef, conditions }) => ({ ref: { ...ancestorRef }, conditions }));
      const fields = "summary" in policy ? fieldsOfPolicy(policy) : {};
      return [objectKey({ namespace, name }), { entries, fields }];
    }),
  );
}

function fieldsOfPolicy({ summary, selectedSecrets }: ClusterStatuses["proxyPolicies"][number]) {
  return { summary, ...(selectedSecrets !== undefined && { selectedSecrets }) };
}

/** Returns the merge patch to write; undefined if the API has all of it already. */
export function sharedPatch(
  entries: readonly SharedEntry[],
  fields: SharedStatus["fields"],
  current: unknown,
  list: SharedList,
  now: string,
): object | undefined {
  const desired = desiredSharedList(entries, current, list, now);
  const before = fieldsOf(current);
  const changed = Object.entries(fields).filter(([name, value]) => !isDeepStrictEqual(before[name], value));
  if (desired === undefined && changed.length === 0) return undefined;
  return { ...Object.fromEntries(changed), ...(desired !== undefined && { [list.list]: desired }) };
}
