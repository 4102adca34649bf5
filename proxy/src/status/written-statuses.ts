/**
 * Remembers the statuses that this process wrote until the source reports them, and limits repeated writes if another
 * writer changes them back.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { hashOfText } from "@gatewayproxy/runtime/text-hash";
import { isLongStatus, type LongStatus, longStatusOf } from "../kube/long-status.ts";
import { RepairLimit } from "../kube/repair-limit.ts";

/** Namespace and name; without a namespace for objects of the whole cluster. */
export interface ObjectName {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** An object as the source last reported it. */
export interface CurrentObject {
  /** Absent: unknown. */
  readonly apiVersion?: string | undefined;
  readonly metadata: ObjectName & {
    /** Distinguishes the object from earlier ones of the same name. */
    readonly uid?: string | undefined;
  };
  readonly status?: unknown;
}

interface Written {
  readonly uid: string | undefined;
  /**
   * The digest of the part of the status that this process wrote, without times. The text would be as long as the
   * object.
   */
  readonly own: string;
  /**
   * The status after the write, and the status that the source reported at that time; absent as soon as the source
   * reports another status.
   */
  readonly unreported?: { readonly before: unknown; readonly after: unknown };
  /** The status after the write, as the source reports it where it does not keep the whole. */
  readonly long: LongStatus;
}

/** If two statuses have the same digest, a write counts as a repair, of which a few are allowed in a minute. */
function digestOf(own: unknown): string {
  const text = JSON.stringify(own);
  return `${text.length} ${hashOfText(text)}`;
}

/** Keeps the last written status of each object. */
export class WrittenStatuses {
  readonly #written = new Map<string, Written>();
  readonly #repairs: RepairLimit;
  readonly #keptOf: (status: unknown) => unknown;

  /** @param keptOf returns the part of a status that is compared, as the source reports it. */
  constructor(clock: Clock, keptOf: (status: unknown) => unknown) {
    this.#repairs = new RepairLimit(clock);
    this.#keptOf = keptOf;
  }

  /** Returns the newest known status: the written one, until the source reports another. */
  currentStatus(key: string, { metadata: { uid }, status }: CurrentObject): unknown {
    const written = this.#written.get(key);
    if (written?.unreported === undefined) return status;
    if (written.uid === uid && written.unreported.before === status) return written.unreported.after;
    this.#written.set(key, { uid: written.uid, own: written.own, long: written.long });
    return status;
  }

  /** Whether a status that is not kept is still the one after the last write, which was the same. */
  isConfirmed(key: string, object: CurrentObject, own: unknown): boolean {
    const current = this.currentStatus(key, object);
    const written = this.#written.get(key);
    if (written === undefined || !isLongStatus(current) || written.uid !== object.metadata.uid) return false;
    return current.hashOfWhole === written.long.hashOfWhole && written.own === digestOf(own);
  }

  /**
   * Counts a write and returns whether it is allowed. It is denied if another writer has changed the status back more
   * often than `RepairLimit` allows.
   */
  mayWrite(key: string, { metadata: { uid } }: CurrentObject, own: unknown): boolean {
    const written = this.#written.get(key);
    const isRepair = written !== undefined && written.uid === uid && written.own === digestOf(own);
    return !isRepair || this.#repairs.take(key);
  }

  /**
   * Records a write.
   *
   * @param own the part of the status that this process wrote.
   * @param whole the status after the write.
   */
  add(key: string, { metadata: { uid }, status }: CurrentObject, own: unknown, whole: unknown): void {
    // A status may be as long as an object, and thousands are written before the source reports them.
    const after = this.#keptOf(whole);
    const unreported = { before: status, after };
    this.#written.set(key, { uid, own: digestOf(own), unreported, long: longStatusOf(after) });
  }

  /** The keys of all objects. */
  keys(): Iterable<string> {
    return this.#written.keys();
  }

  /** Drops an object. */
  delete(key: string): void {
    this.#written.delete(key);
  }
}
