/**
 * Bounds the memory of the objects with the controller's label in each namespace. Anyone may give objects of their
 * namespace this label, and two hundred thousand small ones would end the controller, at every start again.
 */
import { getHeapStatistics } from "node:v8";
import { fieldsOf, type KubeObject, textOf } from "../../kube/object.ts";
import { NamespaceRoom } from "../../kube/namespace-room.ts";
import { bytesIn } from "../../kube/object-bytes.ts";
import { keptPart } from "./kept-part.ts";
import { isRightKind, type OwnedKind, ownedKinds } from "./owned-object.ts";

/**
 * The parts of the heap. Rights have one of their own: who may write a Service in a namespace, but no Role, does not
 * hinder that rights to its Secrets are withdrawn.
 */
const parts = { rights: 1 / 32, others: 3 / 32 } as const;
/** Estimated bytes of an object beside its content, and of what it contains. */
const objectBytes = 1_024;
const contentSizes = { map: 64, field: 32 };

interface Usage {
  readonly room: NamespaceRoom<OwnedKind>;
  readonly namespace: string;
  readonly bytes: number;
}

/** The usage of each object that is kept. */
const usages = new WeakMap<KubeObject, Usage>();

/** The objects of all kinds and namespaces. */
export class OwnedMemory {
  readonly #rights: NamespaceRoom<OwnedKind>;
  readonly #others: NamespaceRoom<OwnedKind>;
  readonly rooms: readonly NamespaceRoom<OwnedKind>[];

  /** @param heapBytes for tests. */
  constructor(heapBytes = getHeapStatistics().heap_size_limit) {
    this.#rights = new NamespaceRoom({ kinds: ownedKinds.filter(isRightKind), maxBytes: heapBytes * parts.rights });
    const others = ownedKinds.filter((kind) => !isRightKind(kind));
    this.#others = new NamespaceRoom({ kinds: others, maxBytes: heapBytes * parts.others });
    this.rooms = [this.#rights, this.#others];
  }

  /** Returns the room of the objects of a kind. */
  roomOf(kind: OwnedKind): NamespaceRoom<OwnedKind> {
    return isRightKind(kind) ? this.#rights : this.#others;
  }

  /** Returns the part of an object that is kept; undefined if its namespace has no room for it. */
  read(kind: OwnedKind, object: KubeObject, before: KubeObject | undefined): KubeObject | undefined {
    const namespace = textOf(fieldsOf(object["metadata"])["namespace"]);
    const kept = keptPart(object);
    // Only operators may write objects of the cluster.
    if (namespace === "") return kept;
    const room = this.roomOf(kind);
    const bytesBefore = before === undefined ? 0 : (usages.get(before)?.bytes ?? 0);
    const bytes = objectBytes + bytesIn(kept, contentSizes);
    if (!room.has(namespace, bytes, bytesBefore)) {
      room.leaveOut(kind, namespace);
      return undefined;
    }
    usages.set(kept, { room, namespace, bytes });
    room.count(namespace, bytes - bytesBefore);
    return kept;
  }

  /** An object is not kept any more. */
  release(removed: KubeObject): void {
    const usage = usages.get(removed);
    usage?.room.count(usage.namespace, -usage.bytes);
  }

  /** Whether objects of a kind in a namespace are left out, so that it is unknown whether another one exists. */
  leavesOut(kind: OwnedKind, namespace: string | undefined): boolean {
    return namespace !== undefined && this.roomOf(kind).leavesOut(kind, namespace);
  }
}
