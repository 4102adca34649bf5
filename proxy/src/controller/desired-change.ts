/** Distinguishes changes that users make from the statuses that the controller writes. Pure. */
import { differenceBetween, type ListChange } from "@gatewayproxy/runtime/lists";
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { kindNames, type Resource, type ResourceSet } from "../api/resource.ts";

/**
 * Whether two sets differ in more than statuses, as far as the API server says so: a change of the spec has another
 * generation. An object without a generation has no status.
 */
export function differsBeyondStatus(before: ResourceSet, after: ResourceSet): boolean {
  return kindNames.some((kind) => hasNewVersion(differenceBetween<Resource>(before[kind], after[kind])));
}

function hasNewVersion({ removed, added }: ListChange<Resource>): boolean {
  if (removed.length !== added.length) return true;
  const versions = new Map(removed.map(({ metadata }) => [objectKey(metadata), versionOf(metadata)]));
  return added.some(({ metadata }) => {
    const version = versionOf(metadata);
    return version === undefined || version !== versions.get(objectKey(metadata));
  });
}

function versionOf({ uid, generation }: Resource["metadata"]): string | undefined {
  return uid === undefined || generation === undefined ? undefined : `${uid} ${generation}`;
}
