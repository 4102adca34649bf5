/**
 * Bounds the memory of the routes of each namespace. Every process reads the routes of all namespaces, and anyone may
 * write thousands with a megabyte each: without a bound, those of one tenant end the controller and all proxies, at
 * every start again.
 */
import { getHeapStatistics } from "node:v8";
import type { FieldError } from "../../api/issue.ts";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../../kube/object.ts";
import type { CachedResource } from "./cached-resource.ts";

/**
 * The part of the heap that the routes of a namespace take at most, as they are read. What is computed of them takes up
 * to three times as much.
 */
const shareOfHeap = 1 / 8;
/** Of an object or a list, and of each of its fields or items. */
const objectBytes = 48;
const fieldBytes = 16;
/** Parents at which a route without room has a status. */
const reportedParents = 4;

/** The bytes of each version that is kept. */
const sizes = new WeakMap<CachedResource, number>();

/** The routes of all namespaces. */
export class RouteMemory {
  readonly #used = new Map<string, number>();
  readonly #max: number;

  /** @param max bytes of a namespace, for tests. */
  constructor(max = Math.floor(getHeapStatistics().heap_size_limit * shareOfHeap)) {
    this.#max = max;
  }

  /**
   * Returns a route as it is parsed, or rejected if its namespace has no room for it.
   *
   * @param before the previous version, which this one replaces.
   * @param parse gets the errors with which the route is rejected.
   */
  read(
    route: KubeObject,
    before: CachedResource | undefined,
    parse: (route: KubeObject, errors: readonly FieldError[]) => CachedResource,
  ): CachedResource {
    const namespace = textOf(fieldsOf(route["metadata"])["namespace"]);
    const usedByOthers = (this.#used.get(namespace) ?? 0) - sizeOf(before);
    const bytes = bytesOf(route["spec"]);
    const hasRoom = usedByOthers + bytes <= this.#max;
    const read = hasRoom ? parse(route, []) : parse(withFirstParents(route), [noRoom(namespace, this.#max)]);
    // The last valid version may stay in force.
    const size = hasRoom ? bytes : read.resource === undefined ? 0 : sizeOf(before);
    sizes.set(read, size);
    this.#set(namespace, usedByOthers + size);
    return read;
  }

  /** A route is not kept any more. */
  release(namespace: string, removed: CachedResource): void {
    this.#set(namespace, (this.#used.get(namespace) ?? 0) - sizeOf(removed));
  }

  #set(namespace: string, bytes: number): void {
    if (bytes > 0) this.#used.set(namespace, bytes);
    else this.#used.delete(namespace);
  }
}

/** Returns what the status of a route without room needs. */
function withFirstParents(route: KubeObject): KubeObject {
  const { parentRefs } = fieldsOf(route["spec"]);
  return { ...route, spec: { parentRefs: objectsOf(parentRefs).slice(0, reportedParents) } };
}

function sizeOf(cached: CachedResource | undefined): number {
  return (cached && sizes.get(cached)) ?? 0;
}

function noRoom(namespace: string, max: number): FieldError {
  const mebibytes = (max / 2 ** 20).toFixed(0);
  const message = `is not read: the routes of namespace ${namespace} take more than ${mebibytes} MiB of memory, an eighth of the heap; edit it once others are removed`;
  return { path: [], message, isUnknownField: false };
}

/** Returns about what a value takes once it is parsed. */
function bytesOf(value: unknown): number {
  if (typeof value === "string") return objectBytes / 2 + value.length;
  if (typeof value !== "object" || value === null) return 0;
  let bytes = objectBytes;
  if (Array.isArray(value)) for (const item of value) bytes += fieldBytes + bytesOf(item);
  else for (const name in value) bytes += fieldBytes + bytesOf((value as KubeObject)[name]);
  return bytes;
}
