/** A buffer of charges that wait for an unavailable service, bounded in number, bytes and age. */
import type { DropReason } from "./observer.ts";

/** A call that adds the tokens of a response to the counters of a service. */
export interface Charge {
  /** The method, as `/package.Service/Method`. */
  readonly path: string;
  /** An encoded `RateLimitRequest` without gRPC framing. */
  readonly message: Buffer;
  /** Monotonic time of the charged response. */
  readonly createdMs: number;
  /** Number of responses with a failure or RESOURCE_EXHAUSTED; absent: none. */
  readonly failures?: number;
  /** Whether it refunds hits, and is not sent again. */
  readonly isRefund?: true;
}

const maxCharges = 10_000;
/** Bytes of the messages: clients choose the values of descriptors, which can be some KiB long. */
const maxBytes = 16 * 1024 * 1024;
/** An older charge would be counted in a window to which its request does not belong. */
const maxAgeMs = 300_000;

/** A queue of at most 10,000 charges and 16 MiB of messages, the oldest first. A charge expires after 5 minutes. */
export class ChargeBuffer {
  readonly #charges: Charge[] = [];
  readonly #onDrop: (reason: DropReason) => void;
  #bytes = 0;

  /** @param onDrop Called for each charge that is dropped. */
  constructor(onDrop: (reason: DropReason) => void) {
    this.#onDrop = onDrop;
  }

  get size(): number {
    return this.#charges.length;
  }

  /** Adds a charge. The oldest are dropped to make room. */
  add(charge: Charge): void {
    this.#charges.push(charge);
    this.#bytes += charge.message.length;
    while (this.#charges.length > maxCharges || this.#bytes > maxBytes) {
      this.#shift();
      this.#onDrop("overflow");
    }
  }

  /** Removes and returns the oldest charge that is not expired at `nowMs`, and drops the expired ones before it. */
  take(nowMs: number): Charge | undefined {
    let charge = this.#shift();
    for (; charge !== undefined && charge.createdMs < nowMs - maxAgeMs; charge = this.#shift()) this.#onDrop("expired");
    return charge;
  }

  /** Drops all charges. */
  retire(): void {
    while (this.#shift() !== undefined) this.#onDrop("retired");
  }

  #shift(): Charge | undefined {
    const charge = this.#charges.shift();
    this.#bytes -= charge?.message.length ?? 0;
    return charge;
  }
}
