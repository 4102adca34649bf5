/**
 * Bounds the sessions of a worker. Below the maximum, an address may have any number, since a resolver or an office is
 * one address. At the maximum, the oldest session of the address with the most ends for an address with fewer.
 */

/** A session that has a place. */
export interface Sharing {
  /** The network of the client, as `source.address`. */
  readonly client: string;
  /** Ends the session, which then leaves. */
  displace(): void;
}

/** The sessions by client, oldest first. */
export class SessionShare {
  readonly #max: number;
  readonly #sessions = new Map<string, Set<Sharing>>();
  /** Clients by the number of their sessions, to find the largest without a search. */
  readonly #bySize: (Set<string> | undefined)[] = [];
  #most = 0;
  #size = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  /** Whether a session of `client` has a place, or would get that of another. Ends none. */
  hasRoomFor(client: string): boolean {
    return this.#size < this.#max || this.#most > (this.#sessions.get(client)?.size ?? 0) + 1;
  }

  /**
   * Makes room for a session of `client`. Returns false, without ending one, if `client` itself would have the most.
   */
  makeRoomFor(client: string): boolean {
    if (this.#size < this.#max) return true;
    if (!this.hasRoomFor(client)) return false;
    const [largest = ""] = this.#bySize[this.#most] ?? [];
    const [oldest] = this.#sessions.get(largest) ?? [];
    oldest?.displace();
    return this.#size < this.#max;
  }

  add(session: Sharing): void {
    const own = this.#sessions.get(session.client) ?? new Set();
    this.#sessions.set(session.client, own);
    own.add(session);
    this.#size++;
    this.#moved(session.client, own.size - 1, own.size);
  }

  delete(session: Sharing): void {
    const own = this.#sessions.get(session.client);
    if (own?.delete(session) !== true) return;
    this.#size--;
    if (own.size === 0) this.#sessions.delete(session.client);
    this.#moved(session.client, own.size + 1, own.size);
  }

  #moved(client: string, before: number, after: number): void {
    this.#bySize[before]?.delete(client);
    if (after > 0) (this.#bySize[after] ??= new Set()).add(client);
    if (after > this.#most) this.#most = after;
    while (this.#most > 0 && (this.#bySize[this.#most]?.size ?? 0) === 0) this.#bySize[this.#most--] = undefined;
  }
}
