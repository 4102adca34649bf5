/**
 * Bounds the resets of streams on a connection, by both sides, since servers end a connection with many resets, and all
 * requests on it: hyper at 20 at once, Netty at 200 in 30 s, Tomcat at 4 more than its responses offset.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { FloodLimit } from "../flood-limit.ts";

/** The maximum of resets on a connection. */
export interface ResetLimits {
  /** Resets before the first response. Two responses permit one more. */
  readonly first: number;
  /** The most resets at once. */
  readonly burst: number;
  /** Resets in each second after a burst. */
  readonly perSecond: number;
}

/** Resets that a response permits. Tomcat counts more overhead for a reset than it subtracts for a response. */
const permittedByResponse = 1 / 2;

/** The resets of one connection. */
export class ResetBudget {
  readonly #burst: number;
  readonly #overTime: FloodLimit;
  #permitted: number;

  constructor({ first, burst, perSecond }: ResetLimits, clock: Clock) {
    this.#burst = burst;
    this.#overTime = new FloodLimit("resets", clock, burst, perSecond);
    this.#permitted = first;
  }

  /** Whether no stream may be reset now. */
  get isUsedUp(): boolean {
    return this.#permitted < 1 || this.#overTime.isEmpty;
  }

  /** Takes a reset. Returns false if none is left. */
  tryTake(): boolean {
    if (this.isUsedUp) return false;
    this.#permitted--;
    return this.#overTime.tryCount();
  }

  /** Called when a response is complete. */
  onResponse(): void {
    this.#permitted = Math.min(this.#burst, this.#permitted + permittedByResponse);
  }
}
