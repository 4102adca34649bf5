/**
 * Logging: one JSON object per line, a logger per module, levels that change while the process runs. Log an event as a
 * constant phrase with fields (`log.info({ route }, "route accepted")`); an `err` field is written with its stack. Each
 * thread has its own `Logs`.
 */
import { pino } from "pino";
import type { Clock } from "./clock.ts";
import type { LogDestination } from "./log-destination.ts";
import { type LogFilter, type LogLevel, mostDetailedLevelOf, passes } from "./log-filter.ts";

/** What a module sees of logging. */
export type Logger = Pick<pino.Logger, "error" | "warn" | "info" | "debug" | "trace" | "isLevelEnabled">;

export interface LogsOptions {
  readonly filter: LogFilter;
  readonly clock: Clock;
  /** As `openStdout` returns it, outside tests. */
  readonly destination: LogDestination;
  /** Fields of every line, such as the number of the worker. */
  readonly bindings?: Readonly<Record<string, string | number>>;
}

/** The loggers of one thread. */
export class Logs {
  readonly #options: LogsOptions;
  readonly #loggers = new Map<string, pino.Logger>();
  #filter: LogFilter;

  constructor(options: LogsOptions) {
    this.#options = options;
    this.#filter = options.filter;
  }

  /** The logger of a module, named as in filters: `proxy::ratelimit`. */
  logger(module: string): Logger {
    const known = this.#loggers.get(module);
    if (known !== undefined) return known;
    const { clock, bindings, destination } = this.#options;
    const logger = pino(
      {
        base: { ...bindings, module },
        level: pinoLevel(this.#filter, module),
        timestamp: () => `,"time":"${new Date(clock.nowMs()).toISOString()}"`,
        formatters: { level: (label) => ({ level: label }) },
        hooks: {
          logMethod: (args, method, level) => {
            if (this.#passes(module, args, level)) method.apply(logger, args);
          },
        },
      },
      destination,
    );
    this.#loggers.set(module, logger);
    return logger;
  }

  get filter(): LogFilter {
    return this.#filter;
  }

  /** Applies to every logger of this thread, made already or later. */
  setFilter(filter: LogFilter): void {
    this.#filter = filter;
    for (const [module, logger] of this.#loggers) logger.level = pinoLevel(filter, module);
  }

  /** A logger's level is all that most filters need; the rest is for those that look into lines. */
  #passes(module: string, [first, second]: readonly unknown[], level: number): boolean {
    const filter = this.#filter;
    if (filter.requests === undefined && filter.pattern === undefined) return true;
    const [fields, message] = typeof first === "string" ? [undefined, first] : [first, second];
    // Pino's labels of its levels are those of filters.
    return passes(filter, module, pino.levels.labels[level] as LogLevel, String(message), fields);
  }
}

function pinoLevel(filter: LogFilter, module: string): string {
  const level = mostDetailedLevelOf(filter, module);
  return level === "off" ? "silent" : level;
}
