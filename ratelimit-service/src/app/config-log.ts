/**
 * Logs the result of each load of the configuration. The source of the configuration decides how often it changes and
 * how many problems it has, so the number of lines is bounded: by load, and by time.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { Logger } from "@gatewayproxy/runtime/log";
import { type ConfigProblem, renderConfigProblem } from "../config/config-problem.ts";
import type { ConfigUpdate } from "../config/config-source.ts";
import { rulesOf, shownComposite } from "../config/rule.ts";

/** Loads that are logged at once; then one per interval. */
const maxBurst = 10;
const intervalMs = 1_000;
/** Maximum number of lines for the problems of a load, and for its warnings. */
const maxProblems = 100;

export class ConfigLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  /**
   * The theoretical arrival time of the generic cell rate algorithm, on the monotonic clock, in ms. Each logged load
   * moves it on by one interval.
   */
  #theoreticalArrivalMs = 0;
  #timer: Timer | undefined;
  /** The last load that is not logged yet, and the number of loads before it that are not logged at all. */
  #pending: { readonly update: ConfigUpdate; readonly skippedLoads: number } | undefined;

  constructor(log: Logger, clock: Clock) {
    this.#log = log;
    this.#clock = clock;
  }

  /**
   * Logs one line for a load, and one for each of its problems and warnings. If loads follow each other too fast, only
   * the last one of each interval is logged, with the number of the others.
   */
  logLoad(update: ConfigUpdate): void {
    if (this.#pending !== undefined) {
      this.#pending = { update, skippedLoads: this.#pending.skippedLoads + 1 };
      return;
    }
    const nowMs = this.#clock.monotonicMs();
    const waitMs = this.#theoreticalArrivalMs - nowMs - (maxBurst - 1) * intervalMs;
    if (waitMs <= 0) {
      this.#write(update, 0);
      return;
    }
    this.#pending = { update, skippedLoads: 0 };
    this.#timer = this.#clock.setTimer(waitMs, () => this.#flush());
  }

  /** Logs a load that waits for its interval. */
  close(): void {
    this.#timer?.cancel();
    this.#flush();
  }

  #flush(): void {
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending !== undefined) this.#write(pending.update, pending.skippedLoads);
  }

  #write(update: ConfigUpdate, skippedLoads: number): void {
    this.#theoreticalArrivalMs = Math.max(this.#theoreticalArrivalMs, this.#clock.monotonicMs()) + intervalMs;
    const { config, parts, problems, warnings } = update;
    const log = this.#log;
    for (const warning of described(warnings)) log.warn({ warning }, "configuration warning");
    for (const problem of described(problems)) log.error({ problem }, "configuration problem");
    const skipped = skippedLoads > 0 && { skippedLoads };
    if (config === undefined) {
      const fields = { files: parts.length, ...skipped };
      log.error(fields, "no configuration could be loaded; every call fails until one can");
      return;
    }
    for (const rule of log.isLevelEnabled("debug") ? rulesOf(config) : []) {
      const { domain, levels, limit } = rule;
      const path = levels.map(({ key, value }) => shownComposite(key, value)).join(".");
      log.debug({ domain, path, limit: limit && `${limit.requestsPerUnit} per ${limit.unit}` }, "limit loaded");
    }
    const limits = [...rulesOf(config)].length;
    const fields = { files: parts.length, domains: config.domains.size, limits, ...skipped };
    if (problems.length === 0) log.info(fields, "configuration loaded");
    else log.warn(fields, "configuration loaded in part; invalid parts keep their last valid version");
  }
}

/** Renders the first problems, and the number of the others. */
function described(problems: readonly ConfigProblem[]): readonly string[] {
  const lines = problems.slice(0, maxProblems).map(renderConfigProblem);
  const rest = problems.length - lines.length;
  return rest === 0 ? lines : [...lines, `and ${rest} more`];
}
