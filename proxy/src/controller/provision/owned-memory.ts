/**
 * Bounds the memory of the objects with the controller's label in each namespace. Anyone may give objects of their
 * namespace this label, and two hundred thousand small ones would end the controller, at every start again.
 */
import { getHeapStatistics } from "node:v8";
import { fieldsOf, type KubeObject, textOf } from "../../kube/object.ts";
import { bytesIn } from "../../kube/object-bytes.ts";
import { keptPart } from "./kept-part.ts";
import { type OwnedKind, ownedKinds } from "./owned-object.ts";

/**
 * The parts of the heap. Rights have one of their own: who may write a Service in a namespace, but no Role, does not
 * hinder that rights to its Secrets are withdrawn.
 */
const shares = { rights: 1 / 32, others: 1 / 8 } as const;
/** Estimated bytes of an object beside its content, and of what it contains. */
const objectBytes = 1_024;
const contentSizes = { map: 64, field: 32 };

interface Usage {
  readonly kind: OwnedKind;
  readonly namespace: string;
  readonly bytes: number;
}

/** The usage of each object that is kept. */
const usages = new WeakMap<KubeObject, Usage>();

/** The objects of all kinds and namespaces. */
export class OwnedMemory {
  /** The maximum of the estimated bytes of one namespace. */
  readonly #maxBytes: Readonly<Record<keyof typeof shares, number>>;
  /** In bytes, by `placeOf`. */
  readonly #used = new Map<string, number>();
  /** The namespaces with objects that are not kept, by kind. */
  readonly #leftOut = new Map<OwnedKind, Set<string>>();
  /** Places in which objects were removed or became smaller while others are left out. */
  readonly #freed = new Set<string>();

  /** @param heapBytes for tests. */
  constructor(heapBytes = getHeapStatistics().heap_size_limit) {
    this.#maxBytes = { rights: heapBytes * shares.rights, others: heapBytes * shares.others };
  }

  /** Returns the part of an object that is kept; undefined if its namespace has no room for it. */
  read(kind: OwnedKind, object: KubeObject, before: KubeObject | undefined): KubeObject | undefined {
    const namespace = textOf(fieldsOf(object["metadata"])["namespace"]);
    const kept = keptPart(object);
    // Only operators may write objects of the cluster.
    if (namespace === "") return kept;
    const place = placeOf(kind, namespace);
    const usedBefore = before === undefined ? 0 : (usages.get(before)?.bytes ?? 0);
    const bytes = objectBytes + bytesIn(kept, contentSizes);
    if ((this.#used.get(place) ?? 0) - usedBefore + bytes > this.#maxBytes[groupOf(kind)]) {
      this.#leftOut.set(kind, (this.#leftOut.get(kind) ?? new Set()).add(namespace));
      return undefined;
    }
    const usage = { kind, namespace, bytes };
    usages.set(kept, usage);
    this.#count(usage, bytes - usedBefore);
    return kept;
  }

  /** An object is not kept any more. */
  release(removed: KubeObject): void {
    const usage = usages.get(removed);
    if (usage !== undefined) this.#count(usage, -usage.bytes);
  }

  /** A list of all objects of a kind begins, or of those in a namespace. It finds those that are left out. */
  beginList(kind: OwnedKind, namespace?: string): void {
    if (namespace === undefined) this.#leftOut.delete(kind);
    else this.#leftOut.get(kind)?.delete(namespace);
  }

  /** Whether objects of a kind in a namespace are left out, so that it is unknown whether another one exists. */
  leavesOut(kind: OwnedKind, namespace: string | undefined): boolean {
    return namespace !== undefined && this.#leftOut.get(kind)?.has(namespace) === true;
  }

  /** Whether there may be room now for objects that are left out. */
  get hasFreed(): boolean {
    return this.#freed.size > 0;
  }

  /** Returns the namespaces with room for objects that are left out, by kind. They are to be listed again. */
  takeFreed(): ReadonlyMap<OwnedKind, readonly string[]> {
    const freed = Array.from(this.#leftOut, ([kind, namespaces]): [OwnedKind, readonly string[]] => [
      kind,
      [...namespaces].filter((namespace) => this.#freed.has(placeOf(kind, namespace))),
    ]);
    this.#freed.clear();
    return new Map(freed);
  }

  #count({ kind, namespace }: Usage, change: number): void {
    const place = placeOf(kind, namespace);
    const used = (this.#used.get(place) ?? 0) + change;
    if (used > 0) this.#used.set(place, used);
    else this.#used.delete(place);
    const leavesOut = ownedKinds.some((each) => this.leavesOut(each, namespace) && placeOf(each, namespace) === place);
    if (change < 0 && leavesOut) this.#freed.add(place);
  }
}

function groupOf(kind: OwnedKind): keyof typeof shares {
  return kind === "Role" || kind === "RoleBinding" ? "rights" : "others";
}

/** Returns a key of the objects of a namespace that share a bound. */
function placeOf(kind: OwnedKind, namespace: string): string {
  return `${groupOf(kind)} ${namespace}`;
}
