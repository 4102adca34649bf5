/**
 * Bounds the memory of the objects with the controller's label in each namespace. Anyone may give objects of their
 * namespace this label, and two hundred thousand small ones would end the controller, at every start again.
 */
import { getHeapStatistics } from "node:v8";
import { fieldsOf, type KubeObject, keyOfObject, textOf } from "../../kube/object.ts";
import { NamespaceRoom } from "../../kube/namespace-room.ts";
import { bytesIn } from "../../kube/object-bytes.ts";
import { ReadOrder } from "../../kube/read-order.ts";
import { TotalRoom } from "../../kube/total-room.ts";
import { keptPart } from "./kept-part.ts";
import { isRightKind, type OwnedKind, ownedKinds } from "./owned-object.ts";

/**
 * The parts of the heap. Rights have one of their own: who may write a Service in a namespace, but no Role, does not
 * hinder that rights to its Secrets are withdrawn.
 */
const parts = { rights: 1 / 32, others: 3 / 32 } as const;
/** What those of all namespaces take together, as a part of the heap. */
const totalPart = 3 / 32;
/** Estimated bytes of an object beside its content, and of what it contains. */
const objectBytes = 1_024;
const contentSizes = { map: 64, field: 32 };

interface Usage {
  readonly room: BoundedRoom;
  readonly kind: OwnedKind;
  readonly namespace: string;
  readonly key: string;
  readonly bytes: number;
}

/** A room with what it keeps, of which the last is left out first. */
interface BoundedRoom {
  readonly room: NamespaceRoom<OwnedKind>;
  readonly order: ReadOrder<KubeObject>;
}

/** The usage of each object that is kept. */
const usages = new WeakMap<KubeObject, Usage>();

/** Options of an `OwnedMemory`. */
export interface OwnedMemoryOptions {
  /** Default: that of this process. */
  readonly heapBytes?: number | undefined;
  /** An object that was kept is left out, because others need the room; its key is as `keyOfObject`. */
  readonly onLeftOut?: (kind: OwnedKind, key: string) => void;
}

/** The objects of all kinds and namespaces. */
export class OwnedMemory {
  readonly #rights: BoundedRoom;
  readonly #others: BoundedRoom;
  readonly rooms: readonly NamespaceRoom<OwnedKind>[];

  constructor({ heapBytes = getHeapStatistics().heap_size_limit, onLeftOut }: OwnedMemoryOptions = {}) {
    const total = new TotalRoom(heapBytes * totalPart);
    const roomOf = (kinds: readonly OwnedKind[], part: number): BoundedRoom => {
      const order = new ReadOrder<KubeObject>();
      const room: NamespaceRoom<OwnedKind> = new NamespaceRoom({
        ...{ kinds, maxBytes: heapBytes * part, total },
        onCut: (namespace, maxBytes) => {
          const isTooMuch = () => room.usedBy(namespace) > maxBytes;
          order.leaveOutLast(namespace, isTooMuch, (last) => this.#leaveOut(last, onLeftOut));
        },
      });
      return { room, order };
    };
    this.#rights = roomOf(ownedKinds.filter(isRightKind), parts.rights);
    this.#others = roomOf(
      ownedKinds.filter((kind) => !isRightKind(kind)),
      parts.others,
    );
    this.rooms = [this.#rights.room, this.#others.room];
  }

  /** Returns the room of the objects of a kind. */
  roomOf(kind: OwnedKind): NamespaceRoom<OwnedKind> {
    return this.#boundedRoomOf(kind).room;
  }

  #boundedRoomOf(kind: OwnedKind): BoundedRoom {
    return isRightKind(kind) ? this.#rights : this.#others;
  }

  /**
   * Returns the part of an object that is kept; undefined if there is no room for it.
   *
   * @param isAgain whether it had none before.
   */
  read(kind: OwnedKind, object: KubeObject, before: KubeObject | undefined, isAgain = false): KubeObject | undefined {
    const namespace = textOf(fieldsOf(object["metadata"])["namespace"]);
    const kept = keptPart(object);
    // Only operators may write objects of the cluster.
    if (namespace === "") return kept;
    const bounded = this.#boundedRoomOf(kind);
    const { room, order } = bounded;
    const bytesBefore = before === undefined ? 0 : (usages.get(before)?.bytes ?? 0);
    const bytes = objectBytes + bytesIn(kept, contentSizes);
    if (!room.has(namespace, bytes, bytesBefore, isAgain)) {
      room.reject(kind, namespace, bytes);
      room.leaveOut(kind, namespace);
      return undefined;
    }
    usages.set(kept, { room: bounded, kind, namespace, key: keyOfObject(object), bytes });
    order.replace(namespace, before, kept);
    room.count(namespace, bytes - bytesBefore);
    return kept;
  }

  #leaveOut(object: KubeObject, onLeftOut: OwnedMemoryOptions["onLeftOut"]): void {
    const usage = usages.get(object);
    if (usage === undefined) return;
    const { kind, namespace, key, bytes } = usage;
    this.roomOf(kind).reject(kind, namespace, bytes);
    this.roomOf(kind).leaveOut(kind, namespace);
    this.release(object);
    onLeftOut?.(kind, key);
  }

  /** An object is not kept any more. */
  release(removed: KubeObject): void {
    const usage = usages.get(removed);
    if (usage === undefined) return;
    const { room, order } = usage.room;
    order.replace(usage.namespace, removed, undefined);
    room.count(usage.namespace, -usage.bytes);
  }

  /** Whether objects of a kind in a namespace are left out, so that it is unknown whether another one exists. */
  leavesOut(kind: OwnedKind, namespace: string | undefined): boolean {
    return namespace !== undefined && this.roomOf(kind).leavesOut(kind, namespace);
  }
}
