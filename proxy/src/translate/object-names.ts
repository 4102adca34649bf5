/** Looking objects up by name, and the orders in which the Gateway API ranks them. */

/** Metadata of an object in a namespace, as far as order and identity go. */
export interface Named {
  readonly metadata: {
    readonly namespace: string;
    readonly name: string;
    readonly creationTimestamp?: string | undefined;
  };
}

/** `namespace/name` */
export function nameKey(object: Named): string {
  return `${object.metadata.namespace}/${object.metadata.name}`;
}

/** Objects of one kind by `namespace/name`. */
export function indexByName<T extends Named>(objects: readonly T[]): ReadonlyMap<string, T> {
  return new Map(objects.map((object) => [nameKey(object), object]));
}

/** A copy sorted by namespace, then name. */
export function sortByName<T extends Named>(objects: readonly T[]): readonly T[] {
  return [...objects].sort(compareNames);
}

/** A copy sorted as the Gateway API breaks ties: oldest first (no time: last), then by namespace and name. */
export function sortByAge<T extends Named>(objects: readonly T[]): readonly T[] {
  return [...objects].sort((a, b) => createdMs(a) - createdMs(b) || compareNames(a, b));
}

function createdMs({ metadata }: Named): number {
  // The largest safe number, not infinity: the difference of two infinities is NaN, which sorts nothing.
  return metadata.creationTimestamp === undefined ? Number.MAX_SAFE_INTEGER : Date.parse(metadata.creationTimestamp);
}

function compareNames(a: Named, b: Named): number {
  return compareText(a.metadata.namespace, b.metadata.namespace) || compareText(a.metadata.name, b.metadata.name);
}

/** By code unit: the same on every machine, whatever its language. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
