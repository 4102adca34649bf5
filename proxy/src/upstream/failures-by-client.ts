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

/** The failures since the last success. */
export class FailuresByClient {
  readonly #failures = new Map<string | undefined, number>();
  /** The client of the last success. */
  #served: string | undefined;
  #servedMs = Number.NEGATIVE_INFINITY;
  /** The time of the last success of another client. */
  #otherServedMs = Number.NEGATIVE_INFINITY;

  succeeded(client: string | undefined, nowMs: number): void {
    // To clear an empty map allocates memory, for each response.
    if (this.#failures.size > 0) this.#failures.clear();
    if (this.#served !== client) {
      this.#otherServedMs = this.#servedMs;
      this.#served = client;
    }
    this.#servedMs = nowMs;
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
    const atMs = this.#served === client ? this.#otherServedMs : this.#servedMs;
    return nowMs - atMs < servedMs;
  }
}
