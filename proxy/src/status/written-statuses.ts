/**
 * What we wrote, as far as it is not yet to be seen in what the source gives, and whether it should be written again
 * where somebody has changed it. Objects that are gone are forgotten.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { RepairLimit } from "../kube/repair-limit.ts";

export interface ObjectName {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** An object as it was last seen. */
export interface StandingObject {
  readonly metadata: ObjectName & {
    /** Tells it from others that had its name before. */
    readonly uid?: string | undefined;
  };
  readonly status?: unknown;
}

interface Written {
  readonly uid: string | undefined;
  /** Our part of the status, without times. */
  readonly own: string;
  /** What stands since we wrote it, and what stood in the source's view then; absent once it has seen more. */
  readonly unseen?: { readonly before: unknown; readonly after: unknown };
}

export class WrittenStatuses {
  readonly #written = new Map<string, Written>();
  readonly #repairs: RepairLimit;

  constructor(clock: Clock) {
    this.#repairs = new RepairLimit(clock);
  }

  /** The newest status that we know of: what we wrote, until the source has seen something newer. */
  standing(key: string, { metadata: { uid }, status }: StandingObject): unknown {
    const written = this.#written.get(key);
    if (written?.unseen === undefined) return status;
    if (written.uid === uid && written.unseen.before === status) return written.unseen.after;
    this.#written.set(key, { uid: written.uid, own: written.own });
    return status;
  }

  /** False where somebody else has changed what we wrote as often as it was put right. To be asked once per write. */
  mayWrite(key: string, { metadata: { uid } }: StandingObject, own: unknown): boolean {
    const written = this.#written.get(key);
    const isRepair = written !== undefined && written.uid === uid && written.own === JSON.stringify(own);
    return !isRepair || this.#repairs.take(key);
  }

  /** @param after the status that stands now, `own` of it ours. */
  add(key: string, { metadata: { uid }, status }: StandingObject, own: unknown, after: unknown): void {
    this.#written.set(key, { uid, own: JSON.stringify(own), unseen: { before: status, after } });
  }

  /** Forgets all others. */
  retain(keys: ReadonlySet<string>): void {
    for (const key of this.#written.keys()) if (!keys.has(key)) this.#written.delete(key);
  }
}
