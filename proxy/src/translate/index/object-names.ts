/** Names of objects, and the orders that the Gateway API defines. */
import { objectKey } from "@gatewayproxy/runtime/object-key";
import { derived } from "@gatewayproxy/runtime/lists";
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

/** Returns a key for all names of a namespace, which no object has. */
export function anyNameIn(namespace: string): string {
  return `${namespace}/`;
}

/** Returns a function that indexes objects of one kind by `namespace/name`. No two of a list have the same. */
export function indexedByName<T extends Named>(): (objects: readonly T[]) => ReadonlyMap<string, T> {
  return derived<T, ReadonlyMap<string, T>>(
    (objects) => new Map(objects.map((object) => [nameKey(object), object])),
    (before, { removed, added }) => {
      const byName = new Map(before);
      for (const object of removed) byName.delete(nameKey(object));
      for (const object of added) byName.set(nameKey(object), object);
      return byName;
    },
  );
}

/** Returns the names of a namespace among `namespace/name`, sorted. The order of an index depends on earlier ones. */
export function namesIn(namespace: string, index: ReadonlyMap<string, unknown>): readonly string[] {
  return namesByNamespace(index).get(namespace) ?? [];
}

const namesByNamespace = memoised((index: ReadonlyMap<string, unknown>) =>
  Map.groupBy([...index.keys()].sort(compareText), (name) => name.slice(0, name.indexOf("/"))),
);

/** Returns a copy sorted by namespace, then name. */
export function sortByName<T extends Named>(objects: readonly T[]): readonly T[] {
  return [...objects].sort(compareNames);
}

/** Returns a copy in the order of the Gateway API: oldest first (without a time last), then by namespace and name. */
export function sortByAge<T extends Named>(objects: readonly T[]): readonly T[] {
  return [...objects].sort(compareAges);
}

/** Compares by the order of the Gateway API. */
export function compareAges(a: Named, b: Named): number {
  return createdMs(a.metadata) - createdMs(b.metadata) || compareNames(a, b);
}

const createdMs = memoised(({ creationTimestamp }: Named["metadata"]): number =>
  // The largest safe integer instead of infinity, since the difference of two infinities is NaN.
  creationTimestamp === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(creationTimestamp),
);

/** Compares by namespace, then name. */
export function compareNames(a: Named, b: Named): number {
  return compareText(a.metadata.namespace, b.metadata.namespace) || compareText(a.metadata.name, b.metadata.name);
}

/** Compares by code units, independently of the locale of the machine. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
