/** Metrics and log lines of one worker's calls of rate limit services. A change of state is logged once. */
import type { Logger } from "@gatewayproxy/runtime/log";
import {
  createFamilies,
  type Families,
  keepNative,
  type MetricsSnapshot,
  takeSnapshot,
} from "@gatewayproxy/runtime/metrics";
import { globalLimitMetrics } from "./metric-table.ts";

/** Outcomes of calls whose label has another spelling. */
const outcomeLabels: Readonly<Record<string, string>> = { overLimit: "over_limit" };

/** Metrics of the rate limit services of one worker. */
export class GlobalLimitMetrics {
  readonly #families: Families<typeof globalLimitMetrics> = createFamilies(globalLimitMetrics);
  readonly #log: Logger;

  /** @param log of module `proxy::ratelimit`. */
  constructor(log: Logger) {
    this.#log = log;
  }

  callEnded(service: string, outcome: string, durationMs: number): void {
    this.#families.calls.cell(service, outcomeLabels[outcome] ?? outcome).value++;
    this.#families.callDuration.cell(service).observe(durationMs / 1_000);
  }

  breakerChanged(service: string, isOpen: boolean, cause: string): void {
    this.#families.openBreakers.cell(service).value += isOpen ? 1 : -1;
    this.#families.breakerChanges.cell(service, isOpen ? "open" : "closed").value++;
    if (isOpen) this.#log.warn({ service, cause }, "rate limit service is unavailable; failure modes decide");
    else this.#log.info({ service }, "rate limit service is available again");
  }

  misbehaved(service: string, message: string): void {
    this.#log.warn({ service, cause: message }, "rate limit service sent an invalid response; failure modes decide");
  }

  chargesBuffered(service: string, count: number): void {
    const before = this.#families.bufferedCharges.cell(service).value;
    if (count > 0 && before === 0) {
      this.#log.debug({ service }, "charges are buffered until the rate limit service is available");
    }
    if (count === 0 && before > 0) this.#log.debug({ service, charges: before }, "buffered charges are delivered");
    this.#families.bufferedCharges.cell(service).value = count;
  }

  chargeDropped(service: string, reason: string): void {
    this.#log.debug({ service, reason }, "charge dropped");
    this.#families.droppedCharges.cell(service, reason).value++;
  }

  retired(service: string): void {
    this.#log.debug({ service }, "no policy uses the rate limit service any more");
    this.#families.openBreakers.cell(service).value = 0;
    this.#families.bufferedCharges.cell(service).value = 0;
  }

  /** Lets histograms have exponential buckets from now on. */
  keepNative(): void {
    keepNative(this.#families);
  }

  snapshot(): MetricsSnapshot {
    return takeSnapshot(this.#families);
  }
}
