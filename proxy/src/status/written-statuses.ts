/**
 * The statuses that this process wrote and the source has not reported yet, and a bound on repeated writes where
 * another writer changes them back. Deleted objects are dropped.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { RepairLimit } from "../kube/repair-limit.ts";

/** Namespace and name; without a namespace for objects of the whole cluster. */
export interface ObjectName {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** An object as the source last reported it. */
export interface CurrentObject {
  readonly metadata: ObjectName & {
    /** Distinguishes the object from earlier ones of the same name. */
    readonly uid?: string | undefined;
  };
  readonly status?: unknown;
}

interface Written {
  readonly uid: string | undefined;
  /** The part of the status that this process wrote, as JSON, without times. */
  readonly own: string;
  /**
   * The status after the write, and the status that the source reported at that time; absent once the source reports
   * another.
   */
  readonly unseen?: { readonly before: unknown; readonly after: unknown };
}

/** Keeps the last written status of each object. */
export class WrittenStatuses {
  readonly #written = new Map<string, Written>();
  readonly #repairs: RepairLimit;

  constructor(clock: Clock) {
    this.#repairs = new RepairLimit(clock);
  }

  /** Returns the newest known status: the written one, until the source reports another. */
  currentStatus(key: string, { metadata: { uid }, status }: CurrentObject): unknown {
    const written = this.#written.get(key);
    if (written?.unseen === undefined) return status;
    if (written.uid === uid && written.unseen.before === status) return written.unseen.after;
    this.#written.set(key, { uid: written.uid, own: written.own });
    return status;
  }

  /**
   * Returns false where another writer has changed the status back more often than `RepairLimit` allows. Call it once
   * per write, as it counts.
   */
  mayWrite(key: string, { metadata: { uid } }: CurrentObject, own: unknown): boolean {
    const written = this.#written.get(key);
    const isRepair = written !== undefined && written.uid === uid && written.own === JSON.stringify(own);
    return !isRepair || this.#repairs.take(key);
  }

  /**
   * Records a write.
   *
   * @param own the part of the status that this process wrote.
   * @param after the whole status after the write.
   */
  add(key: string, { metadata: { uid }, status }: CurrentObject, own: unknown, after: unknown): void {
    this.#written.set(key, { uid, own: JSON.stringify(own), unseen: { before: status, after } });
  }

  /** Drops all objects but these. */
  retain(keys: ReadonlySet<string>): void {
    for (const key of this.#written.keys()) if (!keys.has(key)) this.#written.delete(key);
  }
}
