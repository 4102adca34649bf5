/**
 * Combines two stores: counters of one-second windows in a store of their own (REDIS_PERSECOND), all others in the main
 * one.
 */
import type { CounterStep, CounterStore, StoreConnections } from "../model/counter-store.ts";

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

function isPerSecond(step: CounterStep): boolean {
  return step.windowSeconds === 1;
}
