/**
 * Bounds the signature checks of one worker. A client can send any number of different tokens, and each costs the work
 * of a check: a few run at a time, the rest waits in order, and a client with too many of them is turned away.
 */
import { ConcurrencyLimit } from "@gatewayproxy/runtime/concurrency-limit";

/** Checks at a time. They run on the threads of Node, of which there are four. */
const maxRunning = 8;
/** Checks that wait. */
const maxWaiting = 1_024;
/** Checks of one client that run or wait. */
const maxPerClient = 64;

/** The checks of one worker. */
export class VerificationQueue {
  readonly #checks = new ConcurrencyLimit(maxRunning);
  readonly #ofClient = new Map<string, number>();

  /** Runs a check when it is its turn. Undefined if there are too many. @param client the network of the client. */
  run<Value>(client: string, check: () => Promise<Value>): Promise<Value> | undefined {
    const pending = this.#ofClient.get(client) ?? 0;
    if (pending >= maxPerClient || this.#checks.waiting >= maxWaiting) return undefined;
    this.#ofClient.set(client, pending + 1);
    return this.#checks.run(check).finally(() => this.#left(client));
  }

  #left(client: string): void {
    const left = (this.#ofClient.get(client) ?? 1) - 1;
    if (left === 0) this.#ofClient.delete(client);
    else this.#ofClient.set(client, left);
  }
}
