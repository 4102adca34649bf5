/** Names of objects, and the orders that the Gateway API defines. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { memoised } from "@gatewayproxy/runtime/memoised";

/** The metadata of an object in a namespace that identifies and orders it. */
export interface Named {
  readonly metadata: {
    readonly namespace: string;
    readonly name: string;
    readonly creationTimestamp?: string | undefined;
  };
}

/** Returns `namespace/name`. */
export const nameKey: (object: Named) => string = memoised(({ metadata }) => objectKey(metadata));

/** Returns objects of one kind by `namespace/name`. */
export function indexByName<T extends Named>(objects: readonly T[]): ReadonlyMap<string, T> {
  return new Map(objects.map((object) => [nameKey(object), object]));
}

/** Returns a copy sorted by namespace, then name. */
export function sortByName<T extends Named>(objects: readonly T[]): readonly T[] {
  return [...objects].sort(compareNames);
}

/** Returns a copy in the order of the Gateway API: oldest first (without a time last), then by namespace and name. */
export function sortByAge<T extends Named>(objects: readonly T[]): readonly T[] {
  return objects
    .map((object) => ({ object, ms: createdMs(object.metadata) }))
    .sort((a, b) => a.ms - b.ms || compareNames(a.object, b.object))
    .map(({ object }) => object);
}

const createdMs = memoised(({ creationTimestamp }: Named["metadata"]): number =>
  // The largest safe integer instead of infinity, since the difference of two infinities is NaN.
  creationTimestamp === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(creationTimestamp),
);

function compareNames(a: Named, b: Named): number {
  return compareText(a.metadata.namespace, b.metadata.namespace) || compareText(a.metadata.name, b.metadata.name);
}

/** Compares by code units, independently of the locale of the machine. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
