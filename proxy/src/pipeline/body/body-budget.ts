/**
 * Limits the memory of request bodies, for all workers of a process together. A body is buffered if it must be complete
 * (an LLM request that is edited or limited by its content) or may be sent again (retries, mirrors).
 *
 * Two rules ensure that one client cannot use the whole budget:
 *
 * - One eighth of the budget is reserved for bodies of up to 64 KiB.
 * - When three quarters are in use, a client may not hold more than one eighth, so that the last quarter remains for
 *   others.
 *
 * The counters are in shared memory, with a row for each worker, so that the memory of a worker that died can be
 * released.
 */
import { hashOfText } from "@gatewayproxy/runtime/text-hash";

/** Default of the budget of a process in bytes: 256 MiB. */
export const defaultBodyMemoryBytes = 256 * 1024 * 1024;
/** Unit of the counters, so that a small body costs one atomic operation. */
const stepBytes = 16 * 1024;
/** From this part of the budget on, stalled uploads are ended early and `clientPart` applies. */
const tightPart = 0.75;
/** The part of the budget that is reserved for bodies of up to `smallBodyBytes`. */
const reservedPart = 1 / 8;
/** Maximum part of the budget for one client while the budget is tight. */
const clientPart = 1 / 8;
/** Maximum length of a body that may use the reserved part, in bytes. */
export const smallBodyBytes = 64 * 1024;

/** Number of client counters. Clients whose addresses have the same hash share a counter and its bound. */
const clientCounters = 4_096;
/** Length of the row of one worker: its total, then the counters of clients. */
const rowLength = 1 + clientCounters;

/** Returns the shared memory of a budget. @param workers number of workers; their numbers begin at 1. */
export function createBodyMemory(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer((1 + workers * rowLength) * Int32Array.BYTES_PER_ELEMENT);
}

/** The budget of the process, as one worker uses it. It counts in steps of 16 KiB. */
export class BodyBudget {
  /** Steps in use: the total of all workers, then a row for each worker. */
  readonly #held: Int32Array;
  readonly #row: number;
  readonly #maxSteps: number;

  /**
   * @param memory of `createBodyMemory`.
   * @param worker number of the worker, from 1; 0 for a reader that opens no shares.
   * @param maxBytes the size of the budget.
   */
  constructor(memory: SharedArrayBuffer, worker: number, maxBytes: number) {
    this.#held = new Int32Array(memory);
    this.#row = rowOf(worker);
    this.#maxSteps = Math.floor(maxBytes / stepBytes);
  }

  /** The size of the budget. */
  get maxBytes(): number {
    return this.#maxSteps * stepBytes;
  }

  /** Bytes in use by all workers. */
  get heldBytes(): number {
    return Atomics.load(this.#held, 0) * stepBytes;
  }

  /** Whether at least three quarters of the budget are in use. */
  get isTight(): boolean {
    return Atomics.load(this.#held, 0) >= this.#maxSteps * tightPart;
  }

  /** Releases the memory of a worker that has died. */
  releaseOf(worker: number): void {
    const row = rowOf(worker);
    Atomics.sub(this.#held, 0, Atomics.exchange(this.#held, row, 0));
    this.#held.fill(0, row + 1, row + rowLength);
  }

  /** Returns a share of the budget for one body. @param client the address of its client. */
  openShare(client = ""): BodyShare {
    return new BodyShare(this, client);
  }

  /**
   * Takes `steps` for a body that already has `before` steps.
   *
   * @param counter of the client, by `counterOf`.
   * @returns false if the budget does not permit it; then nothing is taken.
   */
  take(steps: number, before: number, counter: number): boolean {
    const isSmall = (before + steps) * stepBytes <= smallBodyBytes;
    const max = this.#maxSteps - (isSmall ? 0 : Math.floor(this.#maxSteps * reservedPart));
    if (this.isTight && this.#heldBy(counter) + steps > this.#maxSteps * clientPart) return false;
    if (Atomics.add(this.#held, 0, steps) + steps > max) {
      Atomics.sub(this.#held, 0, steps);
      return false;
    }
    this.#count(steps, counter);
    return true;
  }

  /** Returns `steps` of a body to the budget. @param counter as for `take`. */
  give(steps: number, counter: number): void {
    Atomics.sub(this.#held, 0, steps);
    this.#count(-steps, counter);
  }

  #count(steps: number, counter: number): void {
    Atomics.add(this.#held, this.#row, steps);
    Atomics.add(this.#held, this.#row + counter, steps);
  }

  /** Returns the steps of a client in all workers. */
  #heldBy(counter: number): number {
    let steps = 0;
    for (let row = rowOf(1); row < this.#held.length; row += rowLength) {
      steps += Atomics.load(this.#held, row + counter);
    }
    return steps;
  }
}

/** The share of one body in the budget. */
export class BodyShare {
  readonly #budget: BodyBudget;
  /** The address of the client. */
  readonly client: string;
  /** The counter of the client; 0 while the share is empty. */
  #counter = 0;
  #steps = 0;

  constructor(budget: BodyBudget, client: string) {
    this.#budget = budget;
    this.client = client;
  }

  get isEmpty(): boolean {
    return this.#steps === 0;
  }

  /** Bytes of the budget, in whole steps. */
  get bytes(): number {
    return this.#steps * stepBytes;
  }

  /**
   * Grows the share to `bytes` in total, unless it is that large already.
   *
   * @returns false if the budget does not permit it; then the share does not change.
   */
  growTo(bytes: number): boolean {
    const steps = Math.ceil(bytes / stepBytes);
    if (steps <= this.#steps) return true;
    if (this.#counter === 0) this.#counter = counterOf(this.client);
    if (!this.#budget.take(steps - this.#steps, this.#steps, this.#counter)) return false;
    this.#steps = steps;
    return true;
  }

  /** Returns the whole share to the budget. */
  close(): void {
    if (this.#steps > 0) this.#budget.give(this.#steps, this.#counter);
    this.#steps = 0;
  }
}

function rowOf(worker: number): number {
  return 1 + (worker - 1) * rowLength;
}

/** Returns the index of a client's counter in a row, from 1. It is the same in all workers. */
function counterOf(client: string): number {
  return 1 + (hashOfText(client) % clientCounters);
}
