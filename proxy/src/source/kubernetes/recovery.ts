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
/** What a time without a response counts at most: an outage may last for hours. */
const maxSilenceMs = 3_000;

/** Follows the outages of one API server. */
export class Recovery {
  readonly #clock: Clock;
  readonly #onContact: () => void;
  /** The number of times that a kind has become out of date. */
  #outages = 0;
  /** Whether the API server has sent something since a kind became out of date. */
  #hasContact = false;
  /** The time at which `#hasContact` has changed. */
  #sinceMs = 0;
  /** The time that counts as waited until then. */
  #waitedMs = 0;
  /** Whether what is in force was read before the last outage. */
  #isBehind = false;
  /** Whether changes have not waited for all kinds. They wait again after all were current, or out of date. */
  #hasGivenUp = false;

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

  /**
   * A kind is out of date. The API server may be away for others, too, so that the time has not begun.
   *
   * @param areAll whether all kinds are out of date.
   */
  becameOutOfDate(areAll: boolean): void {
    if (this.#hasGivenUp && !areAll) return;
    this.#hasGivenUp = false;
    this.#outages++;
    if (!this.#isBehind) this.#begin(0, false);
    else if (this.#hasContact) this.#begin(this.#countedMs, false);
    this.#isBehind = true;
  }

  /** The API server has sent something. */
  received(): void {
    if (!this.#isBehind || this.#hasContact) return;
    this.#begin(this.#countedMs, true);
    this.#onContact();
  }

  /** The time for which changes wait for kinds that are out of date; infinite before the first response. */
  get leftMs(): number {
    if (!this.#isBehind || this.hasWaitedLong) return 0;
    if (!this.#hasContact) return Number.POSITIVE_INFINITY;
    return Math.min(maxWaitMs - this.#countedMs, this.#sinceMs + waitMs - this.#clock.monotonicMs());
  }

  /** Whether changes must not wait any longer, even if further kinds become out of date. */
  get hasWaitedLong(): boolean {
    return this.#countedMs >= maxWaitMs;
  }

  /**
   * Objects that were read after the wait are in force.
   *
   * @param areCurrent whether all kinds are current.
   */
  ended(areCurrent: boolean): void {
    this.#isBehind = false;
    this.#hasGivenUp = !areCurrent;
  }

  #begin(waitedMs: number, hasContact: boolean): void {
    this.#waitedMs = waitedMs;
    this.#hasContact = hasContact;
    this.#sinceMs = this.#clock.monotonicMs();
  }

  /** The time that counts as waited. */
  get #countedMs(): number {
    const ms = this.#clock.monotonicMs() - this.#sinceMs;
    return this.#waitedMs + (this.#hasContact ? ms : Math.min(ms, maxSilenceMs));
  }
}
