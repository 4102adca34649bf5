/**
 * Bounds the memory of the Secrets and ConfigMaps of one namespace that a process reads. Anyone may write thousands of
 * them with a megabyte each, and select each of them by the selectors of many policies.
 */
import { getHeapStatistics } from "node:v8";
import { fieldsOf, type KubeObject } from "../../kube/object.ts";
import { ReadOrder } from "../../kube/read-order.ts";
import { type TotalPart, TotalRoom } from "../../kube/total-room.ts";
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

/** What all namespaces of a process have together: as much as one of them may take. */
export class NamedTotal {
  readonly #room: TotalRoom;
  readonly #memories = new Map<string, NamedMemory>();
  readonly #part: TotalPart = {
    leaveOut: (namespace, maxLength) => this.#memories.get(namespace)?.cut(maxLength),
    // Each change of the configuration looks for room.
    freed: () => undefined,
  };

  /** @param max for tests. */
  constructor(max = Math.floor(getHeapStatistics().heap_size_limit * heapPart)) {
    this.#room = new TotalRoom(max);
    this.#room.add(this.#part);
  }

  get max(): number {
    return this.#room.maxBytes;
  }

  add(namespace: string, memory: NamedMemory): void {
    this.#memories.set(namespace, memory);
  }

  remove(namespace: string): void {
    this.#memories.delete(namespace);
  }

  has(namespace: string, change: number, isAgain: boolean): boolean {
    return this.#room.has(this.#part, namespace, change, isAgain);
  }

  count(namespace: string, change: number): void {
    this.#room.count(this.#part, namespace, change);
  }
}

/** Options of a `NamedMemory`. */
export interface NamedMemoryOptions {
  /** Default: the part of the heap of a namespace. */
  readonly max?: number | undefined;
  /** What all namespaces have together, and the own one; absent: no maximum. */
  readonly total?: { readonly namespace: string; readonly of: NamedTotal };
}

/** Replaces a version that is kept by one that is not. */
type Replace = (denied: CachedResource) => void;

/** The memory of one namespace. What is not kept is read again once there is room for it. */
export class NamedMemory {
  #used = 0;
  readonly #max: number;
  readonly #total: NamedMemoryOptions["total"];
  readonly #order = new ReadOrder<CachedResource>();
  readonly #replace = new WeakMap<CachedResource, Replace>();

  constructor({ max, total }: NamedMemoryOptions = {}) {
    this.#max = max ?? Math.min(maxLength, Math.floor(getHeapStatistics().heap_size_limit * heapPart));
    this.#total = total;
    total?.of.add(total.namespace, this);
  }

  /**
   * Returns the object as it is parsed, or rejected if there is no room for it.
   *
   * @param before the previous version, which this one replaces.
   * @param replace is called if it loses its room later.
   */
  read(
    object: KubeObject,
    before: CachedResource | undefined,
    parse: () => CachedResource,
    replace: Replace = () => undefined,
  ): CachedResource {
    const length = lengthOf(object);
    const change = length - keptLengthOf(before);
    const hasOwn = this.#used + change <= this.#max;
    const isAgain = before !== undefined && isDenied(before);
    const { namespace = "", of } = this.#total ?? {};
    if (!hasOwn || of?.has(namespace, change, isAgain) === false) {
      const denied = deniedObject(object, hasOwn ? { all: of?.max ?? 0 } : { own: this.#max });
      this.#keep(denied, -length, before);
      return denied;
    }
    const kept = parse();
    this.#replace.set(kept, replace);
    this.#keep(kept, length, before);
    return kept;
  }

  /** @param length negative if it is not kept. */
  #keep(version: CachedResource, length: number, before: CachedResource | undefined): void {
    const lengthBefore = keptLengthOf(before);
    lengths.set(version, length);
    this.#order.replace("", before, length > 0 ? version : undefined);
    this.#setUsed(this.#used + Math.max(0, length) - lengthBefore);
  }

  #setUsed(used: number): void {
    const change = used - this.#used;
    this.#used = used;
    this.#total?.of.count(this.#total.namespace, change);
  }

  /** Denies the objects that were read last, until those that are kept have at most `maxOfAll` characters. */
  cut(maxOfAll: number): void {
    const isTooMuch = () => this.#used > maxOfAll;
    this.#order.leaveOutLast("", isTooMuch, (version) => {
      const object = version.rejected?.object ?? { ...version.resource };
      const denied = deniedObject(object, { all: this.#total?.of.max ?? 0 });
      this.#keep(denied, -(lengths.get(version) ?? 0), version);
      this.#replace.get(version)?.(denied);
    });
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
    this.#setUsed(watches.flat().reduce((sum, each) => sum + keptLengthOf(each), 0));
    const { namespace = "", of } = this.#total ?? {};
    let wantedBefore = 0;
    return wanted.map((length) => {
      const all = wantedBefore + length;
      const hasRoom = this.#used + all <= this.#max && of?.has(namespace, all, true) !== false;
      if (length === 0 || !hasRoom) return false;
      wantedBefore = all;
      return true;
    });
  }

  /** The objects of a watch that is closed count no more: those that another watch reads again would count twice. */
  release(values: readonly CachedResource[]): void {
    for (const each of values) {
      this.#order.replace("", each, undefined);
      this.#setUsed(this.#used - keptLengthOf(each));
    }
  }

  /** Nothing of the namespace is read any more. */
  close(): void {
    this.#setUsed(0);
    this.#total?.of.remove(this.#total.namespace);
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

function deniedObject(object: KubeObject, bound: { readonly own: number } | { readonly all: number }): CachedResource {
  const { namespace } = fieldsOf(object["metadata"]);
  const message =
    "own" in bound
      ? `is not read: the Secrets and ConfigMaps of namespace ${String(namespace)} that are read have more than ${bound.own} characters`
      : `is not read: the Secrets and ConfigMaps of all namespaces that are read have more than ${bound.all} characters, and namespace ${String(namespace)} has more of them than others`;
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
