/**
 * Bounds the memory of the Secrets and ConfigMaps of one namespace that a process reads. Anyone may write thousands of
 * them with a megabyte each, and select each of them by the selectors of many policies.
 */
import { getHeapStatistics } from "node:v8";
import { fieldsOf, type KubeObject } from "../../kube/object.ts";
import type { CachedResource } from "./cached-resource.ts";
import { reportedPart } from "./reported-part.ts";

/**
 * The maximum of all texts of a namespace together, in characters, and as a part of the heap. A certificate with its
 * key has some 7,000.
 */
const maxLength = 64 * 1024 * 1024;
const heapPart = 1 / 16;
/** Of an object without texts, and its type. */
const emptyLength = 512;
/** Of each key beside its text and that of its value. */
const keyLength = 128;

/** The length of each object that is kept, and of each that is not, which is negative. */
const lengths = new WeakMap<CachedResource, number>();

/** The memory of one namespace. What is not kept is read again once there is room for it. */
export class NamedMemory {
  #used = 0;
  readonly #max: number;

  /** @param max for tests. */
  constructor(max = Math.min(maxLength, Math.floor(getHeapStatistics().heap_size_limit * heapPart))) {
    this.#max = max;
  }

  /**
   * Returns the object as it is parsed, or rejected if there is no room for it.
   *
   * @param before the previous version, which this one replaces.
   */
  read(object: KubeObject, before: CachedResource | undefined, parse: () => CachedResource): CachedResource {
    const length = lengthOf(object);
    this.#used -= keptLengthOf(before);
    if (this.#used + length > this.#max) {
      const denied = deniedObject(object, this.#max);
      lengths.set(denied, -length);
      return denied;
    }
    this.#used += length;
    const kept = parse();
    lengths.set(kept, length);
    return kept;
  }

  /**
   * Counts what is kept now.
   *
   * @param watches the objects of each watch.
   * @returns for each watch, whether it may be read again, since there is room for what was not kept of it.
   */
  count(watches: readonly (readonly CachedResource[])[]): readonly boolean[] {
    const wanted = watches.map((values) =>
      values.reduce((sum, each) => sum + Math.max(0, -(lengths.get(each) ?? 0)), 0),
    );
    this.#used = watches.flat().reduce((sum, each) => sum + keptLengthOf(each), 0);
    let left = this.#max - this.#used;
    return wanted.map((length) => {
      if (length === 0 || length > left) return false;
      left -= length;
      return true;
    });
  }

  /** The objects of a watch that is closed count no more: those that another watch reads again would count twice. */
  release(values: readonly CachedResource[]): void {
    for (const each of values) this.#used -= keptLengthOf(each);
  }
}

/** Whether an object is not kept, since there is no room for it. */
export function isDenied(cached: CachedResource): boolean {
  return (lengths.get(cached) ?? 0) < 0;
}

/** Returns 0 for an object that is not kept. */
function keptLengthOf(cached: CachedResource | undefined): number {
  return cached === undefined ? 0 : Math.max(0, lengths.get(cached) ?? 0);
}

function deniedObject(object: KubeObject, max: number): CachedResource {
  const { namespace } = fieldsOf(object["metadata"]);
  const message = `is not read: the Secrets and ConfigMaps of namespace ${String(namespace)} that are read have more than ${max} characters`;
  const errors = [{ path: [], message, isUnknownField: false }];
  return {
    resource: undefined,
    rejected: { object: reportedPart(object), errors, inForce: "nothing" },
    unknownFields: [],
  };
}

function lengthOf({ data, stringData, metadata }: KubeObject): number {
  const { labels, annotations } = fieldsOf(metadata);
  return [data, stringData, labels, annotations].reduce<number>((sum, map) => sum + lengthOfMap(map), emptyLength);
}

function lengthOfMap(map: unknown): number {
  return Object.entries(fieldsOf(map)).reduce(
    (sum, [key, value]) => sum + keyLength + key.length + (typeof value === "string" ? value.length : 0),
    0,
  );
}
