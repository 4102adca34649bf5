/**
 * The order and the concurrency of writes to the API server, so that a namespace with many of them does not delay the
 * others.
 */

/** The number of concurrent writes. The API server's priority and fairness would queue more. */
const concurrency = 8;

/**
 * The maximum time of one pass. A namespace can have thousands of objects, and changes of other objects are not applied
 * before the pass ends.
 */
export const maxPassMs = 4_000;

/**
 * The order of successive passes, each of which may end before all items are written. A tenant can have so many
 * namespaces that the first item of each takes the time of a pass.
 */
export class Turns {
  /** The number of passes in which no item of a namespace was started, by namespace. */
  #waited: ReadonlyMap<string, number> = new Map();
  readonly #started = new Set<string>();

  /**
   * Orders the items of namespaces for a pass by turns: the first of each namespace, then the second of each, and so
   * on. Within a turn, the namespace comes first that has waited for the most passes.
   */
  order<T>(items: ReadonlyMap<string, readonly T[]>): readonly T[] {
    const waitedOf = (namespace: string): number =>
      this.#started.has(namespace) ? 0 : (this.#waited.get(namespace) ?? 0);
    const sorted = [...items].sort(([a], [b]) => waitedOf(b) - waitedOf(a));
    this.#waited = new Map(sorted.map(([namespace]) => [namespace, waitedOf(namespace) + 1]));
    this.#started.clear();
    const numbered = sorted.flatMap(([, own]) => own.map((item, turn) => ({ item, turn })));
    return numbered.sort((a, b) => a.turn - b.turn).map(({ item }) => item);
  }

  /** Called when an item of a namespace is started. */
  start(namespace: string): void {
    this.#started.add(namespace);
  }
}

/**
 * Runs `act` for the items in their order, 8 at a time. Rejects with the first error.
 *
 * @param mayStart is called before each item; no further item is started once it returns false.
 */
export async function inParallel<T>(
  items: readonly T[],
  act: (item: T) => Promise<void>,
  mayStart: () => boolean = () => true,
): Promise<void> {
  const remaining = items.values();
  const worker = async (): Promise<void> => {
    for (const item of remaining) {
      if (!mayStart()) return;
      await act(item);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}
