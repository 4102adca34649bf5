/**
 * Bounds the resets of streams on a connection, by both sides, since servers end a connection with many resets, and all
 * requests on it: hyper at 20 at once, Netty at 200 in 30 s, Tomcat at 4 more than the responses make up for.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { FloodLimit } from "../flood-limit.ts";

/** The maximum of resets on a connection. */
export interface ResetLimits {
  /** Before the first response. Each two responses permit a further one. */
  readonly first: number;
  /** At once, */
  readonly burst: number;
  /** and then in a second. */
  readonly perSecond: number;
}

/** How many resets a response permits: to Tomcat, a reset costs more than a request and its response are worth. */
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

  /** A response is complete. */
  onResponse(): void {
    this.#permitted = Math.min(this.#burst, this.#permitted + permittedByResponse);
  }
}
