/**
 * Keeps requests from waiting for a service that is away. After a few failures in a row it opens, and nothing waits for
 * the service any more; after a pause it asks for one probe, whose answer closes it. A probe is a call that nobody waits
 * for, so that not even the request that it is made of is slower than the others.
 *
 * Where nobody has anything to ask, the service is asked for its health instead, so that a proxy without traffic does not
 * take a service for absent that came back long ago. That closes the breaker on probation: health is not yet an answer, so
 * the first failure opens it again, and from then on nothing but an answer closes it.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

export interface BreakerOptions {
  readonly clock: Clock;
  /** Hears of every change; `cause` is the failure that opened it. */
  readonly onChange: (isOpen: boolean, cause: string) => void;
  /** A call was answered, the first since the breaker opened. */
  readonly onBack: () => void;
  /** A probe is wanted now. `isOverdue`: it has been for a whole pause, and nobody had anything to ask. */
  readonly onProbeWanted: (isOverdue: boolean) => void;
}

/** One failure may be chance, five in a row are not. */
const failuresToOpen = 5;
/** Short, so that counting is global again soon after the service has come back. */
const probePauseMs = 500;
/** The most that a probe waits beyond what the request behind it would: nobody waits for it. */
const maxProbeTimeoutMs = 1_000;

export class Breaker {
  readonly #options: BreakerOptions;
  #failures = 0;
  /** The shortest timeout of the failures in a row. */
  #failedMs = Number.POSITIVE_INFINITY;
  /** Calls that wait no longer than this have failed, as of the last opening. */
  #openForMs = Number.POSITIVE_INFINITY;
  #timer: Timer | undefined;
  #wantsProbe = false;
  #isOpen = false;
  #hasEnded = false;
  /** Closed by the service's health or by what another worker has heard, and no call has been answered since. */
  #isOnProbation = false;
  /** The service said that it was well, and failed all the same. */
  #isHealthMisleading = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  /** Some calls are not to be made. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /**
   * Calls for which someone would wait so long are not to be made. A service that is too slow for a policy with a short timeout
   * is there for those that wait longer.
   */
  isOpenFor(timeoutMs: number): boolean {
    return this.#isOpen && timeoutMs <= this.#openForMs;
  }

  /** How long a probe waits that is made of a call with that timeout: as long as the calls that are not made now. */
  probeTimeoutMs(timeoutMs: number): number {
    return Math.max(timeoutMs, Math.min(this.#openForMs, maxProbeTimeoutMs));
  }

  /** Takes the permission for the one probe of this pause; false when there is none. */
  takeProbe(): boolean {
    if (!this.#wantsProbe) return false;
    this.#stop();
    return true;
  }

  /** Puts a permission back that was not used. */
  returnProbe(): void {
    if (!this.#isOpen) return;
    this.#wantsProbe = true;
    this.#wait();
  }

  /** A call was answered; later than those wait that failed, it says nothing for them. */
  succeeded(durationMs: number): void {
    if (durationMs > (this.#isOpen || this.#isOnProbation ? this.#openForMs : this.#failedMs)) {
      if (this.#isOpen && !this.#wantsProbe) this.#wait();
      return;
    }
    this.#failedMs = Number.POSITIVE_INFINITY;
    const wasAway = this.#isOpen || this.#isOnProbation;
    this.#failures = 0;
    this.#isOnProbation = false;
    this.#isHealthMisleading = false;
    if (this.#isOpen) this.#shut();
    if (wasAway) this.#options.onBack();
  }

  /** The service has been asked for its health in place of a probe. @param fault undefined: it is well. */
  heardOfHealth(fault: string | undefined): void {
    if (!this.#isOpen) return;
    if (fault === undefined && !this.#isHealthMisleading) {
      this.#isOnProbation = true;
      this.#shut();
      return;
    }
    // What tells of the fault now can be believed when it tells of its end.
    if (fault !== undefined) this.#isHealthMisleading = false;
    this.returnProbe();
  }

  /** Another worker has had an answer: requests of this one may ask, too. The first failure opens it again. */
  answeredElsewhere(): void {
    if (!this.#isOpen) return;
    this.#isOnProbation = true;
    this.#shut();
  }

  /**
   * A call failed in a way that says that the service is away; of a probe as well.
   *
   * @param timeoutMs how long it waited, where it timed out; it says nothing for calls that wait longer.
   */
  failed(cause: string, timeoutMs = Number.POSITIVE_INFINITY): void {
    if (this.#hasEnded) return;
    // A probe's turn is over.
    if (this.#isOpen && !this.#wantsProbe) this.#wait();
    // A call from before the opening changes nothing.
    if (this.isOpenFor(timeoutMs)) return;
    this.#failures++;
    this.#failedMs = Math.min(this.#failedMs, timeoutMs);
    const failsAgain = this.#isOnProbation && timeoutMs <= this.#openForMs;
    if (this.#failures < failuresToOpen && !failsAgain) return;
    this.#openForMs = this.#failedMs;
    this.#failures = 0;
    this.#failedMs = Number.POSITIVE_INFINITY;
    if (this.#isOpen) return;
    this.#isHealthMisleading = this.#isOnProbation;
    this.#isOnProbation = false;
    this.#isOpen = true;
    this.#wait();
    this.#options.onChange(true, cause);
  }

  /** Wants nothing any more, and tells of nothing. */
  close(): void {
    this.#hasEnded = true;
    this.#stop();
  }

  #shut(): void {
    this.#isOpen = false;
    this.#stop();
    this.#options.onChange(false, "");
  }

  #wait(): void {
    if (this.#timer !== undefined || this.#hasEnded) return;
    this.#timer = this.#options.clock.setTimer(probePauseMs, () => {
      const isOverdue = this.#wantsProbe;
      this.#timer = undefined;
      this.#wantsProbe = true;
      this.#wait();
      this.#options.onProbeWanted(isOverdue);
    });
  }

  #stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#wantsProbe = false;
  }
}
