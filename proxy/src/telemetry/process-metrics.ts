/** What the main thread counts: configurations and workers. */
import { createFamilies, takeSnapshot, type MetricsSnapshot } from "@gatewayproxy/runtime/metrics";
import { processMetrics } from "./metric-table.ts";

export class ProcessMetrics {
  readonly #families = createFamilies(processMetrics);

  configServes(generation: number): void {
    this.#families.configGeneration.cell().value = generation;
  }

  /** `nowMs` is wall time. */
  configAccepted(nowMs: number): void {
    this.#families.configReloaded.cell().value = nowMs / 1_000;
  }

  configRejected(): void {
    this.#families.configRejected.cell().value++;
  }

  workersServing(count: number): void {
    this.#families.workers.cell().value = count;
  }

  workerRestarted(): void {
    this.#families.workerRestarts.cell().value++;
  }

  /** Counters that were given up while their window was open, since the start. */
  countersEvicted(total: number): void {
    this.#families.evictedCounters.cell().value = total;
  }

  /** Of request bodies, in all workers. */
  bodiesHeld(bytes: number): void {
    this.#families.heldBodyBytes.cell().value = bytes;
  }

  snapshot(): MetricsSnapshot {
    return takeSnapshot(this.#families);
  }
}
