/**
 * A queue in which clients take turns, and what waits for a client takes turns among itself: one with thousands of
 * entries delays the few of another one by a round.
 */
export class ClientQueue<Entry extends { readonly client: string }> {
  /** By client, in the order of their turns. No set is empty. */
  readonly #byClient = new Map<string, Set<Entry>>();

  isEmpty(): boolean {
    return this.#byClient.size === 0;
  }

  /** Whether no other client waits. */
  isOnlyOf(client: string): boolean {
    return this.isEmpty() || (this.#byClient.size === 1 && this.#byClient.has(client));
  }

  /** Has no effect for an entry that waits. */
  add(entry: Entry): void {
    const own = this.#byClient.get(entry.client);
    if (own === undefined) this.#byClient.set(entry.client, new Set([entry]));
    else own.add(entry);
  }

  delete(entry: Entry): void {
    const own = this.#byClient.get(entry.client);
    if (own?.delete(entry) === true && own.size === 0) this.#byClient.delete(entry.client);
  }

  has(client: string): boolean {
    return this.#byClient.has(client);
  }

  /**
   * Removes the next entry. The next turn of its client comes after those of the others.
   *
   * @param mayTake clients for which it returns false are passed over, and keep their turn.
   */
  take(mayTake?: (client: string) => boolean): Entry | undefined {
    for (const [client, own] of this.#byClient) {
      if (mayTake?.(client) === false) continue;
      for (const entry of own) {
        own.delete(entry);
        this.#byClient.delete(client);
        if (own.size > 0) this.#byClient.set(client, own);
        return entry;
      }
    }
    return undefined;
  }
}
