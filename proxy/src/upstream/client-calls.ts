/** The calls in progress of each client, as they were when they were read, to find one that makes room for another. */
import type { ConnectionCall } from "./connection.ts";

/** A call that is displaced may be sent to another provider at once, and displaces none there. */
let isDisplacing = false;

/** The calls of clients. */
export class ClientCalls {
  /** The newest last. */
  readonly #calls: ReadonlyMap<string | undefined, ConnectionCall[]>;
  /** By client, the calls for which others have made room. */
  readonly #added = new Map<string | undefined, number>();

  constructor(calls: readonly ConnectionCall[]) {
    this.#calls = Map.groupBy(
      calls.toSorted((one, other) => one.sentMs - other.sentMs),
      ({ client }) => client,
    );
  }

  /**
   * Ends the newest call of the client with the most, so that `client` can have one more.
   *
   * @returns false, without ending one, if `client` would then have as many.
   */
  displaceFor(client: string | undefined): boolean {
    const call = isDisplacing ? undefined : this.#takeFor(client);
    if (call === undefined) return false;
    this.#added.set(client, (this.#added.get(client) ?? 0) + 1);
    isDisplacing = true;
    try {
      call.displace({ kind: "overloaded", message: "a client with fewer calls has sent another one" });
    } finally {
      isDisplacing = false;
    }
    return true;
  }

  #takeFor(client: string | undefined): ConnectionCall | undefined {
    const own = (this.#calls.get(client)?.length ?? 0) + (this.#added.get(client) ?? 0);
    for (;;) {
      let most: ConnectionCall[] = [];
      for (const calls of this.#calls.values()) if (calls.length > most.length) most = calls;
      if (most.length <= own + 1) return undefined;
      const newest = most.pop();
      if (newest?.isOver === false) return newest;
    }
  }
}
