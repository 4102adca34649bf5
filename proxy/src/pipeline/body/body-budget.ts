/**
 * The memory that request bodies may take, for all workers of a process together. Bodies are held where they must be
 * known whole (an LLM request that is edited or limited by its content) or may be sent again (retries, mirrors).
 *
 * Two rules keep one client from taking all of it. Bodies above 64 KiB leave an eighth to smaller ones. From three
 * quarters on, a client that holds more than an eighth gets no more, so that the last quarter is left to others.
 *
 * The counters lie in shared memory, a row per worker, so that what a worker held that dies can be given back.
 */
export const defaultBodyMemoryBytes = 256 * 1024 * 1024;
/** Unit of the counters, so that a small body costs one atomic operation. */
const stepBytes = 16 * 1024;
/** From this part of the budget on, uploads that stand still are ended early and clients are held to their part. */
const tightPart = 0.75;
/** What only bodies of up to `smallBodyBytes` may take. */
const reservedPart = 1 / 8;
/** What one client may hold once the budget is tight. */
const clientPart = 1 / 8;
/** Up to this length a body may take what is reserved. */
export const smallBodyBytes = 64 * 1024;

/** Counters of clients; those whose addresses have the same hash share one, and its bound. */
const clientCounters = 4_096;
/** Of one worker: its sum, then those of clients. */
const rowLength = 1 + clientCounters;

/** @param workers whose numbers begin at 1. */
export function createBodyMemory(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer((1 + workers * rowLength) * Int32Array.BYTES_PER_ELEMENT);
}

/** The view of one worker on the budget of the process. Amounts are counted in steps of 16 KiB. */
export class BodyBudget {
  /** In steps: of all workers, then the row of each. */
  readonly #held: Int32Array;
  readonly #row: number;
  readonly #maxSteps: number;

  /**
   * @param memory made by `createBodyMemory`.
   * @param worker from 1; 0 for who only reads.
   */
  constructor(memory: SharedArrayBuffer, worker: number, maxBytes: number) {
    this.#held = new Int32Array(memory);
    this.#row = rowOf(worker);
    this.#maxSteps = Math.floor(maxBytes / stepBytes);
  }

  /** Of all workers. */
  get heldBytes(): number {
    return Atomics.load(this.#held, 0) * stepBytes;
  }

  /** Whether little is left. */
  get isTight(): boolean {
    return Atomics.load(this.#held, 0) >= this.#maxSteps * tightPart;
  }

  /** What of one worker was held is free again, for it has died. */
  releaseOf(worker: number): void {
    const row = rowOf(worker);
    Atomics.sub(this.#held, 0, Atomics.exchange(this.#held, row, 0));
    this.#held.fill(0, row + 1, row + rowLength);
  }

  /** A share of the budget that grows with one body. @param client its address. */
  openShare(client = ""): BodyShare {
    return new BodyShare(this, client);
  }

  /**
   * Takes `steps` more for a body that has `before`.
   *
   * @param counter of the body's client, as `counterOf` has it.
   * @returns whether there were so many.
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

  give(steps: number, counter: number): void {
    Atomics.sub(this.#held, 0, steps);
    this.#count(-steps, counter);
  }

  #count(steps: number, counter: number): void {
    Atomics.add(this.#held, this.#row, steps);
    Atomics.add(this.#held, this.#row + counter, steps);
  }

  /** In all workers. */
  #heldBy(counter: number): number {
    let steps = 0;
    for (let row = rowOf(1); row < this.#held.length; row += rowLength) {
      steps += Atomics.load(this.#held, row + counter);
    }
    return steps;
  }
}

/** What one body has of the budget. */
export class BodyShare {
  readonly #budget: BodyBudget;
  readonly #client: string;
  /** Of the client; 0 before anything is held. */
  #counter = 0;
  #steps = 0;

  constructor(budget: BodyBudget, client: string) {
    this.#budget = budget;
    this.#client = client;
  }

  get isEmpty(): boolean {
    return this.#steps === 0;
  }

  /** @returns whether the body may have `bytes` in all; otherwise the share stays as it is. */
  growTo(bytes: number): boolean {
    const steps = Math.ceil(bytes / stepBytes);
    if (steps <= this.#steps) return true;
    if (this.#counter === 0) this.#counter = counterOf(this.#client);
    if (!this.#budget.take(steps - this.#steps, this.#steps, this.#counter)) return false;
    this.#steps = steps;
    return true;
  }

  /** Gives everything back. */
  close(): void {
    if (this.#steps > 0) this.#budget.give(this.#steps, this.#counter);
    this.#steps = 0;
  }
}

function rowOf(worker: number): number {
  return 1 + (worker - 1) * rowLength;
}

/** The place of a client's counter in a row, from 1; the same in every worker. */
function counterOf(client: string): number {
  // FNV-1a
  let hash = 0x811c9dc5;
  for (let at = 0; at < client.length; at++) hash = Math.imul(hash ^ client.charCodeAt(at), 0x01000193);
  return 1 + ((hash >>> 0) % clientCounters);
}
