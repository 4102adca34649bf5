/**
 * Counts in this process while the shared store is unavailable (FAILURE_MODE=local). Limits then hold per replica,
 * starting from the fallback's own counters. A call for which the shared store failed is counted here instead.
 */
import {
  type CounterChange,
  type CounterStep,
  type CounterStore,
  type GroupCounts,
  type GroupStep,
  type LiveCounter,
  type StoreCommands,
  type StoreConnections,
  StoreError,
} from "../model/counter-store.ts";

export class FallbackStore implements CounterStore {
  readonly #shared: CounterStore;
  readonly #local: CounterStore;
  readonly #onDegraded: () => void;

  /** @param onDegraded called for each call that is counted locally */
  constructor(shared: CounterStore, local: CounterStore, onDegraded: () => void) {
    this.#shared = shared;
    this.#local = local;
    this.#onDegraded = onDegraded;
  }

  apply(steps: readonly CounterStep[]): readonly number[] | Promise<readonly number[]> {
    const values = this.#shared.apply(steps);
    if (!(values instanceof Promise)) return values;
    return values.catch((error: unknown) => {
      if (!(error instanceof StoreError)) throw error;
      this.#onDegraded();
      return this.#local.apply(steps);
    });
  }

  applyGroups(steps: readonly GroupStep[]): GroupCounts | Promise<GroupCounts> {
    const counts = this.#shared.applyGroups?.(steps) ?? [];
    if (!(counts instanceof Promise)) return counts;
    return counts.catch((error: unknown) => {
      if (!(error instanceof StoreError)) throw error;
      this.#onDegraded();
      return this.#local.applyGroups?.(steps) ?? [];
    });
  }

  /** Changes the counters of both stores, and returns the number of the shared one. Rejects if that cannot. */
  async change(changes: readonly CounterChange[]): Promise<number> {
    const [shared] = await Promise.all([this.#shared.change(changes), this.#local.change(changes)]);
    return shared;
  }

  /** Always healthy, because calls are decided either way. The log and the metrics report the fallback. */
  isHealthy(): boolean {
    return this.#shared.isHealthy() || this.#local.isHealthy();
  }

  liveCounters(): Iterable<LiveCounter> {
    return this.#local.liveCounters?.() ?? [];
  }

  connections(): readonly StoreConnections[] {
    return this.#shared.connections?.() ?? [];
  }

  commands(): readonly StoreCommands[] {
    return this.#shared.commands?.() ?? [];
  }

  async close(): Promise<void> {
    await Promise.all([this.#shared.close(), this.#local.close()]);
  }
}
