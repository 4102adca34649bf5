/** Metrics of the main thread: configurations and workers. */
import type { ExportCounts } from "@gatewayproxy/runtime/export-observer";
import { createFamilies, takeSnapshot, type MetricsSnapshot } from "@gatewayproxy/runtime/metrics";
import type { ProviderFigures } from "../ir/endpoint-state.ts";
import type { LocalLimit } from "../ir/limit.ts";
import type { BackendKey } from "../ir/snapshot.ts";
import { processMetrics } from "./metric-table.ts";

/** The usage of one entry of a policy. */
export interface LimitUsage {
  readonly limit: Pick<LocalLimit, "policy" | "entry" | "name" | "target" | "counts">;
  readonly used: number;
  /** From 0 to 1. */
  readonly remainingRatio: number;
}

/** Counts in the main thread. */
export class ProcessMetrics {
  readonly #families = createFamilies(processMetrics);
  /** Those with series. */
  #providers: ReadonlySet<BackendKey> = new Set();

  configServes(generation: number): void {
    this.#families.configGeneration.cell().value = generation;
  }

  /** Records an accepted configuration. `nowMs` is wall time. */
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

  /** The usage of the entries with an open window, and of no other. */
  limitUsage(entries: readonly LimitUsage[]): void {
    const { limitUsed, limitRemaining } = this.#families;
    limitUsed.clear();
    limitRemaining.clear();
    for (const { limit, used, remainingRatio } of entries) {
      const { policy, entry, name = entry, target, counts } = limit;
      limitUsed.cell(policy, name, target, counts).value = used;
      limitRemaining.cell(policy, name, target, counts).value = remainingRatio;
    }
  }

  /** Counters that were evicted during their window, since the start. */
  countersEvicted(total: number): void {
    this.#families.evictedCounters.cell().value = total;
  }

  /** Counters that an operator has reset. */
  countersReset(count: number): void {
    this.#families.resetCounters.cell().value += count;
  }

  /** All that was counted up to `untilMs`, wall time, is in a file of this size. */
  countersSaved(untilMs: number, bytes: number): void {
    this.#families.stateSaved.cell().value = untilMs / 1_000;
    this.#families.stateBytes.cell().value = bytes;
  }

  /** Counters could not be written. */
  saveFailed(): void {
    this.#families.stateFailures.cell().value++;
  }

  /** An export of all metrics has ended. */
  metricsExported(outcome: "exported" | "failed"): void {
    this.#families.metricExports.cell(outcome).value++;
  }

  /** What became of the lines of the main thread that were to be exported, since the start. */
  linesExported(counts: Readonly<ExportCounts>): void {
    for (const [outcome, count] of Object.entries(counts)) {
      if (count > 0) this.#families.exportedLines.cell(outcome).value = count;
    }
  }

  /** Memory of request bodies in all workers, in bytes. */
  bodyMemory(bytes: number): void {
    this.#families.heldBodyBytes.cell().value = bytes;
  }

  /** Watches of the Kubernetes API whose last request failed. */
  watchesFailing(count: number): void {
    this.#families.failingWatches.cell().value = count;
  }

  /** The states of the providers of Backends with several, by the keys of their Backends. */
  providers(figures: ReadonlyMap<BackendKey, ProviderFigures>): void {
    const { providerOutOfQuota, providerFailing } = this.#families;
    for (const key of this.#providers) {
      if (figures.has(key)) continue;
      providerOutOfQuota.removeSeries("provider", key);
      providerFailing.removeSeries("provider", key);
    }
    this.#providers = new Set(figures.keys());
    for (const [key, { outOfQuotaForMs, failingForMs }] of figures) {
      providerOutOfQuota.cell(key).value = outOfQuotaForMs > 0 ? 1 : 0;
      providerFailing.cell(key).value = failingForMs > 0 ? 1 : 0;
    }
  }

  snapshot(): MetricsSnapshot {
    return takeSnapshot(this.#families);
  }
}
