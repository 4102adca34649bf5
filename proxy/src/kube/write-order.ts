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

/** Orders items of several lists by turns: the first of each list, then the second of each, and so on. */
export function inTurns<T>(lists: Iterable<readonly T[]>): readonly T[] {
  const numbered = Array.from(lists, (list) => list.map((item, turn) => ({ item, turn }))).flat();
  return numbered.sort((a, b) => a.turn - b.turn).map(({ item }) => item);
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
