/**
 * Keeps requests from waiting for a service that is away. After a few failures in a row it opens, and nothing waits for
 * the service any more; after a pause it asks for one probe, whose answer closes it. A probe is a call that nobody waits
 * for, so that not even the request that it is made of is slower than the others.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";

export interface BreakerOptions {
  readonly clock: Clock;
  /** Hears of every change; `cause` is the failure that opened it. */
  readonly onChange: (isOpen: boolean, cause: string) => void;
  /** A probe is wanted now. */
  readonly onProbeWanted: () => void;
}

/** One failure may be chance, five in a row are not. */
const failuresToOpen = 5;
/** Short, so that counting is global again soon after the service has come back. */
const probePauseMs = 500;

export class Breaker {
  readonly #options: BreakerOptions;
  #failures = 0;
  #timer: Timer | undefined;
  #wantsProbe = false;
  #isOpen = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  /** Calls that someone would wait for are not to be made. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Takes the permission for the one probe of this pause; false when there is none. */
  takeProbe(): boolean {
    const isWanted = this.#wantsProbe;
    this.#wantsProbe = false;
    return isWanted;
  }

  /** Puts a permission back that was not used. */
  returnProbe(): void {
    this.#wantsProbe = this.#isOpen;
  }

  /** A call was answered. */
  succeeded(): void {
    this.#failures = 0;
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#stop();
    this.#options.onChange(false, "");
  }

  /** A call failed in a way that says that the service is away; of a probe as well. */
  failed(cause: string): void {
    this.#failures++;
    if (this.#isOpen) {
      // The probe's turn is over; a call from before the opening changes nothing.
      if (!this.#wantsProbe) this.#wait();
      return;
    }
    if (this.#failures < failuresToOpen) return;
    this.#isOpen = true;
    this.#wait();
    this.#options.onChange(true, cause);
  }

  close(): void {
    this.#stop();
  }

  #wait(): void {
    if (this.#timer !== undefined) return;
    this.#timer = this.#options.clock.setTimer(probePauseMs, () => {
      this.#timer = undefined;
      this.#wantsProbe = true;
      this.#options.onProbeWanted();
    });
  }

  #stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#wantsProbe = false;
  }
}
