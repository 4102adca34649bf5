/**
 * Brings charges to one rate limit service. One that fails because the service is away is kept and sent again, in the order
 * in which charges were made; what comes meanwhile queues behind it.
 *
 * One to which the service answers that it failed, or has no room, is sent five times and then dropped: the charge itself may
 * be the cause, and what comes behind it must not wait for ever. Its pauses grow, so that a service without room is relieved.
 *
 * A charge is delivered at least once, as far as it is not dropped: one that has timed out may have arrived and is sent
 * again, because a budget that runs dry a little early harms nobody, one that nobody fills does.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { type Charge, ChargeBuffer } from "./charge-buffer.ts";
import type { CallFailure } from "./grpc/unary-client.ts";
import type { DropReason } from "./observer.ts";

export interface ChargeDeliveryOptions {
  readonly clock: Clock;
  /** Calls the service; `done` hears of the end once, with what went wrong. */
  readonly send: (charge: Charge, done: (failure: CallFailure | undefined) => void) => void;
  /** Whether requests ask the service now; it may be too slow for them and take charges all the same. */
  readonly isAsked: () => boolean;
  /** How many wait now. */
  readonly onBuffered: (count: number) => void;
  readonly onDropped: (reason: DropReason) => void;
}

const maxInFlight = 64;
/** A service that has answered so often that it failed, or has no room, will not take the charge: it is too large, say. */
const maxFailures = 5;
/** Before the next attempt while single charges fail and requests are answered; doubles with each failure of a charge. */
const firstPauseMs = 500;

export class ChargeDelivery {
  readonly #options: ChargeDeliveryOptions;
  readonly #buffer: ChargeBuffer;
  #inFlight = 0;
  /** The last charge arrived. */
  #isTaken = false;
  #retry: Timer | undefined;
  #onIdle: (() => void) | undefined;
  #isClosed = false;

  constructor(options: ChargeDeliveryOptions) {
    this.#options = options;
    this.#buffer = new ChargeBuffer(options.onDropped);
  }

  /** How many wait for the service. */
  get size(): number {
    return this.#buffer.size;
  }

  /** Sends a charge at once, or when it is its turn and the service is there. */
  deliver(charge: Charge): void {
    if (!this.#canSend || this.#buffer.size > 0) this.#keep(charge);
    else this.#send(charge);
  }

  /** Sends the oldest that waits, to see whether the service is there. @returns whether there was one. */
  probe(): boolean {
    return this.#sendNext();
  }

  /** Whether requests ask the service has changed. */
  askedChanged(): void {
    this.#isTaken = false;
    if (!this.#options.isAsked()) {
      this.#tellIdle();
      return;
    }
    this.#retry?.cancel();
    this.#retry = undefined;
    this.#sendWaiting();
  }

  /** Resolves when no charge is under way and none can be sent; those that wait for an absent service are given up. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve;
      this.#tellIdle();
    });
  }

  /** Gives up what waits, and what is under way if it fails. */
  close(): void {
    this.#isClosed = true;
    this.#retry?.cancel();
    this.#buffer.retire();
    this.#onIdle?.();
  }

  /** Whether a charge that is sent now can be expected to arrive. */
  get #canSend(): boolean {
    return this.#options.isAsked() || this.#isTaken;
  }

  #send(charge: Charge): void {
    this.#inFlight++;
    this.#options.send(charge, (failure) => {
      this.#inFlight--;
      this.#isTaken = failure === undefined;
      if (failure !== undefined) this.#failed(charge, failure);
      this.#sendWaiting();
      this.#tellIdle();
    });
  }

  #failed(charge: Charge, { cause }: CallFailure): void {
    if (cause === "timeout" || cause === "unavailable") this.#tryAgain(charge);
    else if (cause === "failed" || cause === "exhausted") {
      const failures = (charge.failures ?? 0) + 1;
      if (failures < maxFailures) this.#tryAgain({ ...charge, failures });
      else this.#options.onDropped(cause === "failed" ? "failed" : "rejected");
    }
    // The overall code of a charge decides nothing: it has been counted.
    else if (cause !== "unknown") this.#options.onDropped("rejected");
  }

  #tryAgain(charge: Charge): void {
    this.#keep(charge);
    this.#retryLater(firstPauseMs * 2 ** Math.max(0, (charge.failures ?? 0) - 1));
  }

  #keep(charge: Charge): void {
    if (this.#isClosed) {
      this.#options.onDropped("retired");
      return;
    }
    this.#buffer.add(charge);
    this.#options.onBuffered(this.#buffer.size);
  }

  /** After a charge that failed by itself; where the service is away, its return says when to go on. */
  #retryLater(pauseMs: number): void {
    if (!this.#options.isAsked() || this.#retry !== undefined || this.#isClosed) return;
    this.#retry = this.#options.clock.setTimer(pauseMs, () => {
      this.#retry = undefined;
      this.#sendWaiting();
    });
  }

  #sendWaiting(): void {
    // While a retry is awaited the last attempt has just failed.
    while (this.#buffer.size > 0 && this.#inFlight < maxInFlight && this.#canSend && this.#retry === undefined) {
      this.#sendNext();
    }
  }

  /** @returns whether there was one. */
  #sendNext(): boolean {
    const charge = this.#buffer.take(this.#options.clock.monotonicMs());
    this.#options.onBuffered(this.#buffer.size);
    if (charge === undefined) return false;
    this.#send(charge);
    return true;
  }

  #tellIdle(): void {
    if (this.#onIdle === undefined || this.#inFlight > 0) return;
    if (this.#buffer.size === 0 || !this.#canSend) this.#onIdle();
  }
}
