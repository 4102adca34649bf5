/**
 * Writes that the API server does not execute soon. An admission webhook, which may read what a tenant has chosen, can
 * delay each write in a namespace by up to 30 s. A pass does not wait for them, since it would delay all other objects
 * and withdrawn rights.
 */
import type { Clock } from "@gatewayproxy/runtime/clock";
import { isSettledWithin } from "@gatewayproxy/runtime/settled-within";

/** The time for which the caller waits for a write. */
const waitMs = 1_000;

/** Unfinished writes of a namespace. No further write is started there. */
const maxOfNamespace = 4;

/**
 * Unfinished writes of all namespaces. Beyond them, each namespace has one, so that a tenant with many namespaces does
 * not delay others, and an API server that is slow for all does not get more and more requests. Eight callers that wait
 * for a second each, and the time limit of requests, bound the sum.
 */
const manyOfAll = 64;

/** The result for a write that continues, or that was not started. */
export const unfinished = Symbol("unfinished");

/** Collaborators of `UnfinishedWrites`. */
export interface UnfinishedWritesOptions {
  /** The clock of the wait. */
  readonly clock: Clock;
  /** Called when a write has succeeded for which its caller did not wait. One that fails is to be repeated later. */
  readonly onWritten: () => void;
}

/** The unfinished writes of one writer. */
export class UnfinishedWrites {
  readonly #options: UnfinishedWritesOptions;
  /** By the key of the object. */
  readonly #writes = new Map<string, { readonly namespace: string; readonly end: Promise<void> }>();

  constructor(options: UnfinishedWritesOptions) {
    this.#options = options;
  }

  /**
   * Writes an object, unless a write of it is unfinished or its namespace has too many. Resolves with the result, or
   * with `unfinished` after a second, while the write continues.
   *
   * @param write resolves with whether it has succeeded; never rejects.
   */
  async run(
    { namespace, key }: { readonly namespace: string; readonly key: string },
    write: () => Promise<boolean>,
  ): Promise<boolean | typeof unfinished> {
    const ofNamespace = [...this.#writes.values()].filter((each) => each.namespace === namespace).length;
    const max = this.#writes.size < manyOfAll ? maxOfNamespace : 1;
    if (this.#writes.has(key) || ofNamespace >= max) return unfinished;
    const { clock, onWritten } = this.#options;
    const result = write();
    if (await isSettledWithin(result, clock, waitMs)) return await result;
    const end = result.then((isWritten) => {
      this.#writes.delete(key);
      if (isWritten) onWritten();
    });
    this.#writes.set(key, { namespace, end });
    return unfinished;
  }

  /** Whether there are any. */
  get exist(): boolean {
    return this.#writes.size > 0;
  }

  /** Resolves when all writes have ended. */
  async ended(): Promise<void> {
    await Promise.all(Array.from(this.#writes.values(), ({ end }) => end));
  }
}
