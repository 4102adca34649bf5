/**
 * The memory that request bodies may take, for all workers of a process together. Bodies are held where they must be
 * known whole (an LLM request that is edited or limited by its content) or may be sent again (retries, mirrors). The
 * counters lie in shared memory: one for all, and one per worker, so that those of a worker that dies can be given back.
 */

export const defaultBodyMemoryBytes = 256 * 1024 * 1024;
/** Unit of the counters, so that a small body costs one atomic operation. */
const stepBytes = 16 * 1024;
/** From this part of the budget on, uploads that stand still are ended early. */
const tightPart = 0.75;

/** @param workers whose numbers begin at 1. */
export function createBodyMemory(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer((workers + 1) * Int32Array.BYTES_PER_ELEMENT);
}

export class BodyBudget {
  /** In steps: of all workers, then of each. */
  readonly #held: Int32Array;
  readonly #worker: number;
  readonly #maxSteps: number;

  /**
   * @param memory made by `createBodyMemory`.
   * @param worker from 1; 0 for who only reads.
   */
  constructor(memory: SharedArrayBuffer, worker: number, maxBytes: number) {
    this.#held = new Int32Array(memory);
    this.#worker = worker;
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
    Atomics.sub(this.#held, 0, Atomics.exchange(this.#held, worker, 0));
  }

  /** A share of the budget that grows with one body. */
  openShare(): BodyShare {
    return new BodyShare(this);
  }

  /** @param steps below 0 to give back. @returns whether there were so many, and they are taken. */
  take(steps: number): boolean {
    const before = Atomics.add(this.#held, 0, steps);
    if (steps > 0 && before + steps > this.#maxSteps) {
      Atomics.sub(this.#held, 0, steps);
      return false;
    }
    Atomics.add(this.#held, this.#worker, steps);
    return true;
  }
}

/** What one body has of the budget. */
export class BodyShare {
  readonly #budget: BodyBudget;
  #steps = 0;

  constructor(budget: BodyBudget) {
    this.#budget = budget;
  }

  get isEmpty(): boolean {
    return this.#steps === 0;
  }

  /** @returns whether the body may have `bytes` in all; otherwise the share stays as it is. */
  growTo(bytes: number): boolean {
    const steps = Math.ceil(bytes / stepBytes);
    if (steps <= this.#steps) return true;
    if (!this.#budget.take(steps - this.#steps)) return false;
    this.#steps = steps;
    return true;
  }

  /** Gives everything back. */
  close(): void {
    if (this.#steps > 0) this.#budget.take(-this.#steps);
    this.#steps = 0;
  }
}
