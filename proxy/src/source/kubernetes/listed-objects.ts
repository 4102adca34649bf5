/** The objects of a kind that is watched as a whole. What is computed of them is kept until one of them changes. */
import { memoised, memoisedWith } from "@gatewayproxy/runtime/memoised";
import { type Resource, resourceSet, type ResourceSet } from "../../api/resource.ts";
import type { CachedResource } from "./cached-resource.ts";
import type { WholeKind } from "./watched-kinds.ts";

/** The objects of a kind. */
export interface ListedObjects {
  /** Those in force. */
  readonly resources: readonly Resource[];
  /** Those with a problem to report, which are few. */
  readonly faulty: readonly CachedResource[];
}

/** Returns the same value for the same list. */
export const listedObjects = memoised(
  (cached: readonly CachedResource[]): ListedObjects => ({
    resources: resourcesIn(cached),
    faulty: cached.filter(isFaulty),
  }),
);

/** The same with further versions in force, which have no problem to report. */
export const listedObjectsWith = memoisedWith(
  (cached: readonly CachedResource[], ...further: readonly CachedResource[]): ListedObjects => {
    const listed = listedObjects(cached);
    if (further.length === 0) return listed;
    return { ...listed, resources: [...listed.resources, ...resourcesIn(further)] };
  },
);

/** Whether an object has a problem to report. */
export function isFaulty({ rejected, unknownFields }: CachedResource): boolean {
  return rejected !== undefined || unknownFields.length > 0;
}

/** Returns the objects in force. */
export function resourcesIn(cached: readonly CachedResource[]): readonly Resource[] {
  const resources = new Array<Resource>(cached.length);
  let count = 0;
  for (const { resource } of cached) if (resource !== undefined) resources[count++] = resource;
  resources.length = count;
  return resources;
}

/** Returns the set of the kinds that are watched as a whole. */
export function wholeSet(
  kinds: readonly ({ readonly kind: WholeKind } & Pick<ListedObjects, "resources">)[],
): ResourceSet {
  const lists = kinds.map(({ kind, resources }) => [kind, resources]);
  // The watch of a kind has the resources of this kind.
  return { ...resourceSet([]), ...(Object.fromEntries(lists) as Partial<ResourceSet>) };
}
