/**
 * Delivers charges to one rate limit service. A charge that fails because the service is unavailable is kept and sent
 * again, in the order in which charges were made; later charges queue behind it.
 *
 * A charge that the service fails or rejects with RESOURCE_EXHAUSTED is sent five times and then dropped: the charge
 * itself may be the cause, and must not block those behind it. The pauses between its attempts grow, to relieve an
 * overloaded service.
 *
 * Delivery is at least once unless a charge is dropped. A charge that timed out may have arrived and is sent again: a
 * budget that is exhausted a little early does less harm than one that is not charged. For the same reason, a refund is
 * sent at most once.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import { type Charge, ChargeBuffer } from "./charge-buffer.ts";
import type { CallFailure } from "@gatewayproxy/grpc/client/unary-client";
import type { ObserveCall } from "./service-call.ts";
import type { DropReason } from "./observer.ts";

/** The service that gets the charges, and the receivers of events. */
export interface ChargeDeliveryOptions {
  /** Times pauses between attempts, from 500 ms on, and the age of charges. */
  readonly clock: Clock;
  /** Calls the service. `done` is called once at the end, with the failure if there was one. */
  readonly send: (
    charge: Charge,
    observe: ObserveCall | undefined,
    done: (failure: CallFailure | undefined) => void,
  ) => void;
  /** Whether requests call the service now. A service that is too slow for requests may still accept charges. */
  readonly isAvailable: () => boolean;
  /** Called with the number of waiting charges. */
  readonly onBuffered: (count: number) => void;
  /** Called for each charge that is dropped. */
  readonly onDropped: (reason: DropReason) => void;
}

const maxInFlight = 64;
/**
 * Maximum number of responses with a failure or RESOURCE_EXHAUSTED. Beyond it the service is unlikely to accept the
 * charge, which may be too large.
 */
const maxFailures = 5;
/**
 * The pause before the next attempt while single charges fail and requests succeed; doubles with each failure of a
 * charge.
 */
const firstPauseMs = 500;

/** The charges of one worker for one service, at most 64 in progress. `idle` ends it in order, `close` at once. */
export class ChargeDelivery {
  readonly #options: ChargeDeliveryOptions;
  readonly #buffer: ChargeBuffer;
  #inFlight = 0;
  /** Whether the service accepted the last charge. */
  #lastSucceeded = false;
  #retry: Timer | undefined;
  #onIdle: (() => void) | undefined;
  #isClosed = false;

  constructor(options: ChargeDeliveryOptions) {
    this.#options = options;
    this.#buffer = new ChargeBuffer(options.onDropped);
  }

  /** The number of charges that wait for the service. */
  get size(): number {
    return this.#buffer.size;
  }

  /**
   * Sends a charge at once; or, if the service is unavailable or other charges wait, after those.
   *
   * @param observe called only if the charge is sent at once. A charge that waits keeps nothing of its request.
   */
  deliver(charge: Charge, observe?: ObserveCall): void {
    if (!this.#canSend || this.#buffer.size > 0) this.#enqueue(charge);
    else this.#send(charge, observe);
  }

  /**
   * Sends the oldest waiting charge as a probe.
   *
   * @returns whether there was one.
   */
  probe(): boolean {
    return this.#sendNext();
  }

  /** Must be called when `isAvailable` has changed. */
  availabilityChanged(): void {
    this.#lastSucceeded = false;
    if (!this.#options.isAvailable()) {
      this.#reportIdle();
      return;
    }
    this.#retry?.cancel();
    this.#retry = undefined;
    this.#sendWaiting();
  }

  /**
   * Resolves when no charge is in progress and none can be sent. Charges that wait for an unavailable service are
   * dropped.
   */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve;
      this.#reportIdle();
    });
  }

  /** Drops the waiting charges, and those in progress if they fail. */
  close(): void {
    this.#isClosed = true;
    this.#retry?.cancel();
    this.#buffer.retire();
    this.#onIdle?.();
  }

  /** Whether a charge that is sent now is expected to arrive. */
  get #canSend(): boolean {
    return this.#options.isAvailable() || this.#lastSucceeded;
  }

  #send(charge: Charge, observe?: ObserveCall): void {
    this.#inFlight++;
    this.#options.send(charge, observe, (failure) => {
      this.#inFlight--;
      this.#lastSucceeded = failure === undefined;
      if (failure !== undefined) this.#failed(charge, failure);
      this.#sendWaiting();
      this.#reportIdle();
    });
  }

  #failed(charge: Charge, { cause }: CallFailure): void {
    if (charge.isRefund === true) {
      this.#options.onDropped("uncertain");
    } else if (cause === "timeout" || cause === "unavailable") {
      this.#enqueueRetry(charge);
    } else if (cause === "failed" || cause === "exhausted") {
      const failures = (charge.failures ?? 0) + 1;
      if (failures < maxFailures) this.#enqueueRetry({ ...charge, failures });
      else this.#options.onDropped(cause === "failed" ? "failed" : "rejected");
    }
    // A response with overall code UNKNOWN is a success: the service has counted the charge.
    else if (cause !== "unknown") {
      this.#options.onDropped("rejected");
    }
  }

  #enqueueRetry(charge: Charge): void {
    this.#enqueue(charge);
    this.#retryLater(firstPauseMs * 2 ** Math.max(0, (charge.failures ?? 0) - 1));
  }

  #enqueue(charge: Charge): void {
    if (this.#isClosed) {
      this.#options.onDropped("retired");
      return;
    }
    this.#buffer.add(charge);
    this.#options.onBuffered(this.#buffer.size);
  }

  /**
   * Schedules the next attempt after a charge failed by itself. If the service is unavailable, `availabilityChanged`
   * resumes.
   */
  #retryLater(pauseMs: number): void {
    if (!this.#options.isAvailable() || this.#retry !== undefined || this.#isClosed) return;
    this.#retry = this.#options.clock.setTimer(pauseMs, () => {
      this.#retry = undefined;
      this.#sendWaiting();
    });
  }

  #sendWaiting(): void {
    // While a retry timer runs, the last attempt has just failed.
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

  #reportIdle(): void {
    if (this.#onIdle === undefined || this.#inFlight > 0) return;
    if (this.#buffer.size === 0 || !this.#canSend) this.#onIdle();
  }
}
