/** The shared memory of all counters of a process, and one thread's access to it. */
import { createCounterMemory } from "@gatewayproxy/runtime/counter-memory";
import { CounterTable } from "./counter-table.ts";
import { createSlidingMemory, SlidingTable } from "./sliding-table.ts";

/** The same for all threads. */
export interface StoreMemory {
  readonly counters: SharedArrayBuffer;
  readonly sliding: SharedArrayBuffer;
}

/**
 * Creates empty memory for `counters` counters, and an eighth as many sliding windows.
 *
 * @throws as `createCounterMemory`
 */
export function createStoreMemory(counters: number): StoreMemory {
  return { counters: createCounterMemory(counters), sliding: createSlidingMemory(counters) };
}

/** One thread's counters and sliding windows. */
export class MemoryTables {
  readonly counters: CounterTable;
  readonly sliding: SlidingTable;

  /** @param owner 1 to 2^31-1, unique to this thread */
  constructor(memory: StoreMemory, owner: number) {
    this.counters = new CounterTable(memory.counters, owner);
    this.sliding = new SlidingTable(memory.sliding, owner);
  }

  /** Counters and windows that all threads evicted before their end, since the memory was created. */
  get evictions(): number {
    return this.counters.evictions + this.sliding.evictions;
  }

  /** Releases the locks of a thread that ended while it held some. The thread must not run any more. */
  releaseLocksOf(owner: number): number {
    return this.counters.releaseLocksOf(owner) + this.sliding.releaseLocksOf(owner);
  }
}
