/**
 * The hits that a rate limit service has counted for a request in advance: estimates of its tokens, until its response.
 */
import { isHeld, type PlannedCall, type TokenCharge } from "./calls.ts";
import type { RequestDescriptor } from "./descriptors.ts";
import type { RateLimitResponse } from "./messages.ts";

/** The hits of one descriptor. */
export interface ServiceHold extends TokenCharge {
  /** Sent with a refund of the hits; undefined: the service refunds none. */
  readonly heldAtMs: number | undefined;
}

/** Returns what a service holds after its response to a call. */
export function holdsOf({ descriptors }: PlannedCall, response: RateLimitResponse): readonly ServiceHold[] {
  const { overallCode, statuses, heldAtMs } = response;
  if (overallCode !== "OK") return [];
  return descriptors.flatMap((descriptor, at) => {
    if (!isHeld(descriptor)) return [];
    // A service that does not refund counts all hits of a call, and none counts more.
    const hits = heldAtMs === undefined ? descriptor.hits : Math.min(descriptor.hits, statuses[at]?.heldHits ?? 0);
    return hits === 0 ? [] : { descriptor, hits, heldAtMs };
  });
}

/** What a request still holds at a service. */
export class ServiceHolds {
  #holds: readonly ServiceHold[];

  constructor(holds: readonly ServiceHold[]) {
    this.#holds = holds;
  }

  get isEmpty(): boolean {
    return this.#holds.length === 0;
  }

  /** Removes and returns the hold of a descriptor; undefined if it holds nothing. */
  take(descriptor: RequestDescriptor): ServiceHold | undefined {
    const taken = this.#holds.find((hold) => hold.descriptor === descriptor);
    if (taken !== undefined) this.#holds = this.#holds.filter((hold) => hold !== taken);
    return taken;
  }

  /** Removes and returns all holds. */
  takeAll(): readonly ServiceHold[] {
    const taken = this.#holds;
    this.#holds = [];
    return taken;
  }
}
