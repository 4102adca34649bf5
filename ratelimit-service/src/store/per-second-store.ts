/**
 * Combines two stores: counters of one-second windows in a store of their own (REDIS_PERSECOND), all others in the main
 * one. Groups of counters and sliding windows are in the main one, whatever their length.
 */
import type {
  CounterChange,
  CounterStep,
  CounterStore,
  GroupCounts,
  GroupStep,
  StoreConnections,
} from "../model/counter-store.ts";

export class PerSecondStore implements CounterStore {
  readonly #store: CounterStore;
  readonly #perSecond: CounterStore;

  constructor(store: CounterStore, perSecond: CounterStore) {
    this.#store = store;
    this.#perSecond = perSecond;
  }

  apply(steps: readonly CounterStep[]): readonly number[] | Promise<readonly number[]> {
    const perSecond = steps.filter(isPerSecond);
    if (perSecond.length === 0) return this.#store.apply(steps);
    if (perSecond.length === steps.length) return this.#perSecond.apply(steps);
    const others = steps.filter((step) => !isPerSecond(step));
    return Promise.all([this.#perSecond.apply(perSecond), this.#store.apply(others)]).then(([fast, slow]) => {
      const [fastValues, slowValues] = [fast.values(), slow.values()];
      return steps.map((step) => (isPerSecond(step) ? fastValues : slowValues).next().value ?? 0);
    });
  }

  applyGroups(steps: readonly GroupStep[]): GroupCounts | Promise<GroupCounts> {
    return this.#store.applyGroups?.(steps) ?? [];
  }

  async change(changes: readonly CounterChange[]): Promise<number> {
    const perSecond = changes.filter((change) => change.kind === "plain" && isPerSecond(change));
    const others = changes.filter((change) => change.kind !== "plain" || !isPerSecond(change));
    const [fast, slow] = await Promise.all([this.#perSecond.change(perSecond), this.#store.change(others)]);
    return fast + slow;
  }

  isHealthy(): boolean {
    return this.#store.isHealthy() && this.#perSecond.isHealthy();
  }

  connections(): readonly StoreConnections[] {
    const perSecond = this.#perSecond.connections?.() ?? [];
    const others = this.#store.connections?.() ?? [];
    return [...others, ...perSecond.map((counts) => ({ ...counts, pool: "redis_per_second_pool" as const }))];
  }

  async close(): Promise<void> {
    await Promise.all([this.#store.close(), this.#perSecond.close()]);
  }
}

function isPerSecond({ windowSeconds }: Pick<CounterStep, "windowSeconds">): boolean {
  return windowSeconds === 1;
}
