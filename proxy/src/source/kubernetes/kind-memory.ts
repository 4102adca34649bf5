/**
 * Bounds the memory of the routes of each namespace, and of its Gateways and ListenerSets. Every process reads those of
 * all namespaces, and anyone may write thousands with a megabyte each: without a bound, those of one tenant end the
 * controller and all proxies, at every start again.
 */
import { getHeapStatistics } from "node:v8";
import { routeKinds } from "@gatewayproxy/runtime/route-key";
import type { FieldError } from "../../api/issue.ts";
import { fieldsOf, type KubeObject, objectsOf, textOf } from "../../kube/object.ts";
import type { CachedResource } from "./cached-resource.ts";

/** Kinds whose objects share a bound in each namespace. */
export type BoundedKinds = keyof typeof bounds;

/**
 * The part of the heap that they take at most, as they are read. What is computed of them takes up to three times as
 * much.
 */
const bounds = {
  routes: { kinds: routeKinds as readonly string[], share: 1 / 8, words: ["routes", "an eighth"] },
  gateways: {
    kinds: ["Gateway", "ListenerSet"] as readonly string[],
    share: 1 / 16,
    words: ["Gateways and ListenerSets", "a sixteenth"],
  },
} as const;

/** Returns the bound of a kind; undefined if it has none. */
export function boundOf(kind: string): BoundedKinds | undefined {
  if (bounds.routes.kinds.includes(kind)) return "routes";
  return bounds.gateways.kinds.includes(kind) ? "gateways" : undefined;
}

/** Estimated bytes of an object or a list, without its fields or items. */
const objectBytes = 48;
/** Estimated bytes of a field or an item, without its value. */
const fieldBytes = 16;
/** Parents at which a route without room has a status. */
const reportedParents = 4;

/** What a version takes of the memory of its namespace. */
interface Usage {
  readonly namespace: string;
  readonly bytes: number;
}

/** The usage of each version that is kept. */
const usages = new WeakMap<CachedResource, Usage>();

/** The objects of some kinds in all namespaces. */
export class KindMemory {
  readonly #of: BoundedKinds;
  readonly #used = new Map<string, number>();
  readonly #max: number;

  /** @param max bytes of a namespace, for tests. */
  constructor(of: BoundedKinds, max = Math.floor(getHeapStatistics().heap_size_limit * bounds[of].share)) {
    this.#of = of;
    this.#max = max;
  }

  /**
   * Returns an object as it is parsed, or rejected if its namespace has no room for it.
   *
   * @param before the previous version, which this one replaces.
   * @param parse gets the errors with which the object is rejected.
   */
  read(
    object: KubeObject,
    before: CachedResource | undefined,
    parse: (object: KubeObject, errors: readonly FieldError[]) => CachedResource,
  ): CachedResource {
    const namespace = textOf(fieldsOf(object["metadata"])["namespace"]);
    const bytesBefore = (before && usages.get(before)?.bytes) ?? 0;
    const usedByOthers = (this.#used.get(namespace) ?? 0) - bytesBefore;
    const bytes = bytesOf(object["spec"]);
    const hasRoom = usedByOthers + bytes <= this.#max;
    const read = hasRoom ? parse(object, []) : parse(withParents(object), [this.#noRoom(namespace)]);
    // The last valid version may stay in force.
    const bytesWithoutRoom = read.rejected?.inForce === "lastValidVersion" ? bytesBefore : 0;
    const usage = { namespace, bytes: hasRoom ? bytes : bytesWithoutRoom };
    usages.set(read, usage);
    this.#set(namespace, usedByOthers + usage.bytes);
    return read;
  }

  /** An object is not kept any more. */
  release(removed: CachedResource): void {
    const usage = usages.get(removed);
    if (usage !== undefined) this.#set(usage.namespace, (this.#used.get(usage.namespace) ?? 0) - usage.bytes);
  }

  #noRoom(namespace: string): FieldError {
    const mebibytes = (this.#max / 2 ** 20).toFixed(0);
    const [objects, share] = bounds[this.#of].words;
    const message = `is not read: the ${objects} of namespace ${namespace} take more than ${mebibytes} MiB of memory, ${share} of the heap; edit it once others are removed`;
    return { path: [], message, isUnknownField: false };
  }

  #set(namespace: string, bytes: number): void {
    if (bytes > 0) this.#used.set(namespace, bytes);
    else this.#used.delete(namespace);
  }
}

/** Returns what the status of an object without room needs, and what is left of one without a valid version. */
function withParents(object: KubeObject): KubeObject {
  const { parentRefs, parentRef, gatewayClassName } = fieldsOf(object["spec"]);
  const spec = {
    ...(parentRefs !== undefined && { parentRefs: objectsOf(parentRefs).slice(0, reportedParents) }),
    ...{ parentRef, gatewayClassName },
  };
  return { ...object, spec };
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
