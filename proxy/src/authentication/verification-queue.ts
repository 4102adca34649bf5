/**
 * Bounds the signature checks of one worker. A client can send any number of different tokens, and each costs the work of a
 * check: a few run at a time, the rest waits in order, and a client with too many of them is turned away.
 */

/** Checks at a time. They run on the threads of Node, of which there are four. */
const maxRunning = 8;
/** Checks that wait. */
const maxWaiting = 1_024;
/** Checks of one client that run or wait. */
const maxPerClient = 64;

/** A task that waits for its turn. */
type Start = () => void;

/** The checks of one worker. */
export class VerificationQueue {
  #running = 0;
  readonly #waiting: Start[] = [];
  readonly #ofClient = new Map<string, number>();

  /** Runs a check when it is its turn. Undefined if there are too many. @param client the network of the client. */
  run<Value>(client: string, check: () => Promise<Value>): Promise<Value> | undefined {
    const pending = this.#ofClient.get(client) ?? 0;
    if (pending >= maxPerClient || this.#waiting.length >= maxWaiting) return undefined;
    this.#ofClient.set(client, pending + 1);
    return this.#inTurn(check).finally(() => this.#left(client));
  }

  async #inTurn<Value>(check: () => Promise<Value>): Promise<Value> {
    if (this.#running >= maxRunning) await new Promise<void>((start) => this.#waiting.push(start));
    else this.#running += 1;
    try {
      return await check();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running -= 1;
      else next();
    }
  }

  #left(client: string): void {
    const left = (this.#ofClient.get(client) ?? 1) - 1;
    if (left === 0) this.#ofClient.delete(client);
    else this.#ofClient.set(client, left);
  }
}
