/** The charges that wait for a service which is away, bounded in number, bytes and age. */
import type { DropReason } from "./observer.ts";

export interface Charge {
  readonly path: string;
  readonly message: Buffer;
  /** Monotonic time of the response that it is for. */
  readonly madeMs: number;
  /** How often the service has answered that it failed, or has no room (RESOURCE_EXHAUSTED); absent: never. */
  readonly failures?: number;
}

const maxCharges = 10_000;
/** Of their messages: clients write the values of descriptors, which may be some KiB long. */
const maxBytes = 16 * 1024 * 1024;
/** A charge that arrives later than this would be taken from a window that its request had no part in. */
const maxAgeMs = 300_000;

export class ChargeBuffer {
  readonly #charges: Charge[] = [];
  readonly #onDrop: (reason: DropReason) => void;
  #bytes = 0;

  /** @param onDrop told of each charge that is given up. */
  constructor(onDrop: (reason: DropReason) => void) {
    this.#onDrop = onDrop;
  }

  get size(): number {
    return this.#charges.length;
  }

  /** Keeps a charge; the oldest make room. */
  add(charge: Charge): void {
    this.#charges.push(charge);
    this.#bytes += charge.message.length;
    while (this.#charges.length > maxCharges || this.#bytes > maxBytes) {
      this.#shift();
      this.#onDrop("overflow");
    }
  }

  /** Takes the oldest out that is not too old at `nowMs`, and drops those before it. */
  take(nowMs: number): Charge | undefined {
    let charge = this.#shift();
    for (; charge !== undefined && charge.madeMs < nowMs - maxAgeMs; charge = this.#shift()) this.#onDrop("expired");
    return charge;
  }

  /** Gives all of them up. */
  retire(): void {
    while (this.#shift() !== undefined) this.#onDrop("retired");
  }

  #shift(): Charge | undefined {
    const charge = this.#charges.shift();
    this.#bytes -= charge?.message.length ?? 0;
    return charge;
  }
}
