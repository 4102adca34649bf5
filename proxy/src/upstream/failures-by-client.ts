/**
 * The failures of an endpoint by client, since a client can cause those of its own requests: by a path that responds
 * with 500, or a prompt that takes too long. While the endpoint serves others, few of each client count.
 */

/** Those of three clients suffice for an ejection. */
const countedOfClient = 2;
/** An endpoint that has served another client before this time may serve none now. */
const servedMs = 10_000;
/** Failures of further clients all count. */
const maxClients = 100;

interface Served {
  readonly client: string | undefined;
  readonly atMs: number;
}

/** The failures since the last success. */
export class FailuresByClient {
  readonly #failures = new Map<string | undefined, number>();
  #lastServed: Served | undefined;
  /** The last success of another client than that of `#lastServed`. */
  #servedBefore: Served | undefined;

  succeeded(client: string | undefined, nowMs: number): void {
    this.#failures.clear();
    if (this.#lastServed?.client !== client) this.#servedBefore = this.#lastServed;
    this.#lastServed = { client, atMs: nowMs };
  }

  failed(client: string | undefined): void {
    if (this.#failures.size < maxClients || this.#failures.has(client)) {
      this.#failures.set(client, (this.#failures.get(client) ?? 0) + 1);
    }
  }

  /** Returns the number of failures that do not count. */
  uncounted(nowMs: number): number {
    let sum = 0;
    for (const [client, failures] of this.#failures) {
      if (failures > countedOfClient && this.#servesOthersThan(client, nowMs)) sum += failures - countedOfClient;
    }
    return sum;
  }

  #servesOthersThan(client: string | undefined, nowMs: number): boolean {
    const served = this.#lastServed?.client === client ? this.#servedBefore : this.#lastServed;
    return served !== undefined && nowMs - served.atMs < servedMs;
  }
}
