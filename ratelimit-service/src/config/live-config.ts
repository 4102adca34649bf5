/** The configuration that decides calls, and the history of its loads for operators. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { RateLimitStats } from "../stats.ts";
import type { ConfigUpdate } from "./config-source.ts";
import type { RateLimitConfig } from "./rule.ts";

/** The result of the last load. */
export interface ConfigStatus {
  readonly update: ConfigUpdate;
  /** Wall time of the last load, and of the last load without a problem; absent before the first. */
  readonly loadedAtMs?: number;
  readonly lastSuccessAtMs?: number;
}

/** The configuration of one thread. An update replaces it as a whole. */
export class LiveConfig {
  readonly #stats: RateLimitStats;
  readonly #clock: Clock;
  #status: ConfigStatus = { update: { parts: [], problems: [], warnings: [] } };

  constructor(stats: RateLimitStats, clock: Clock) {
    this.#stats = stats;
    this.#clock = clock;
  }

  /** Applies an update of a source. Counts the load as a success only if it has no problem. */
  apply(update: ConfigUpdate): void {
    const now = this.#clock.nowMs();
    const isSuccess = update.problems.length === 0;
    if (isSuccess) this.#stats.service.configLoadSuccess++;
    else this.#stats.service.configLoadError++;
    const lastSuccessAtMs = isSuccess ? now : this.#status.lastSuccessAtMs;
    this.#status = { update, loadedAtMs: now, ...(lastSuccessAtMs === undefined ? {} : { lastSuccessAtMs }) };
  }

  /** The configuration in use; absent until one could be loaded, and calls fail until then. */
  get current(): RateLimitConfig | undefined {
    return this.#status.update.config;
  }

  /** Whether some domain has limits (HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED). */
  get hasDomains(): boolean {
    return (this.current?.domains.size ?? 0) > 0;
  }

  get status(): ConfigStatus {
    return this.#status;
  }
}
