/**
 * The end of an outage of the API server. The kinds are listed one after the other then: until the last one, an object
 * that was created meanwhile would have an effect without those that restrict it.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";

/**
 * The maximum time for which changes wait for kinds that are out of date. Otherwise one that cannot be listed would
 * hold them forever.
 */
const waitMs = 3_000;
/**
 * The maximum of all such times until something is in force again. An API server of which each second request fails
 * would hold changes forever, since some kind is always out of date.
 */
const maxWaitMs = 6_000;

/** Follows the outages of one API server. */
export class Recovery {
  readonly #clock: Clock;
  readonly #onContact: () => void;
  /** The number of times that a kind has become out of date. */
  #outages = 0;
  /** The time of the first response since a kind became out of date; undefined: there was none. */
  #contactMs: number | undefined;
  /** The time for which changes have waited before, since they began to. */
  #waitedMs = 0;
  /** Whether what is in force was read before the last outage. */
  #isBehind = false;

  /** @param onContact called when the API server responds after an outage. */
  constructor(clock: Clock, onContact: () => void) {
    this.#clock = clock;
    this.#onContact = onContact;
  }

  /** Whether a kind became out of date, and nothing that was read afterwards is in force. */
  get isBehind(): boolean {
    return this.#isBehind;
  }

  /** The number of times that a kind has become out of date. */
  get outages(): number {
    return this.#outages;
  }

  /** A kind is out of date. The API server may be away for others, too, so that the time has not begun. */
  becameOutOfDate(): void {
    this.#outages++;
    this.#waitedMs = this.#isBehind ? this.#waitMs : 0;
    this.#contactMs = undefined;
    this.#isBehind = true;
  }

  /** The API server has sent something. */
  received(): void {
    if (!this.#isBehind || this.#contactMs !== undefined) return;
    this.#contactMs = this.#clock.monotonicMs();
    this.#onContact();
  }

  /** The time for which changes wait for kinds that are out of date; infinite before the first response. */
  get leftMs(): number {
    if (this.hasWaitedLong) return 0;
    if (this.#contactMs === undefined) return Number.POSITIVE_INFINITY;
    const inAllMs = maxWaitMs - this.#waitMs;
    return Math.min(inAllMs, this.#contactMs + waitMs - this.#clock.monotonicMs());
  }

  /** Whether changes must not wait any longer, even if further kinds become out of date. */
  get hasWaitedLong(): boolean {
    return this.#waitMs >= maxWaitMs;
  }

  /** The time for which changes have waited, without the times in which the API server did not respond. */
  get #waitMs(): number {
    const sinceMs = this.#contactMs;
    return this.#waitedMs + (sinceMs === undefined ? 0 : this.#clock.monotonicMs() - sinceMs);
  }

  /** Objects that were read after the wait are in force. */
  ended(): void {
    this.#isBehind = false;
  }
}
