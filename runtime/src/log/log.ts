/**
 * Logging: one JSON object per line, one logger per module, levels that change at run time. Log an event as a constant
 * phrase with fields (`log.info({ route }, "route accepted")`); an `err` field is written with its stack. Each thread
 * has its own `Logs`.
 */
import { pino } from "pino";
import type { Clock } from "../timing/clock.ts";
import type { LogDestination } from "./log-destination.ts";
import { type LogFilter, type LogLevel, mostDetailedLevelOf, passes } from "./log-filter.ts";

/** The logger of a module. */
export type Logger = Pick<pino.Logger, "error" | "warn" | "info" | "debug" | "trace" | "isLevelEnabled">;

/** A logger that writes nothing. */
export const silentLogger: Logger = pino({ enabled: false });

/** Options of `Logs`. */
export interface LogsOptions {
  /** The levels by module at the start; `setFilter` replaces it. */
  readonly filter: LogFilter;
  /** The time of each line. */
  readonly clock: Clock;
  /** From `openStdout`, except in tests. */
  readonly destination: LogDestination;
  /** Fields of every line, such as the worker's number. */
  readonly bindings?: Readonly<Record<string, string | number>>;
}

/** The loggers of one thread. */
export class Logs {
  readonly #options: LogsOptions;
  readonly #loggers = new Map<string, pino.Logger>();
  #filter: LogFilter;
  /** Gets the lines, too; undefined: nothing does. */
  #copies: LogDestination | undefined;
  /** The module whose lines are not copied. */
  #uncopied: string | undefined;

  constructor(options: LogsOptions) {
    this.#options = options;
    this.#filter = options.filter;
  }

  /** Returns the logger of a module, named as in log filters: `proxy::ratelimit`. */
  logger(module: string): Logger {
    const known = this.#loggers.get(module);
    if (known !== undefined) return known;
    const { clock, bindings } = this.#options;
    const logger = pino(
      {
        base: { module, ...bindings },
        level: pinoLevel(this.#filter, module),
        timestamp: () => `,"time":"${new Date(clock.nowMs()).toISOString()}"`,
        formatters: { level: (label) => ({ level: label }) },
        hooks: {
          logMethod: (args, method, level) => {
            if (this.#passes(module, args, level)) method.apply(logger, args);
          },
        },
      },
      { write: (line: string) => this.#write(module, line) },
    );
    this.#loggers.set(module, logger);
    return logger;
  }

  get filter(): LogFilter {
    return this.#filter;
  }

  /** Applies the filter to all loggers of this thread, existing and later ones. */
  setFilter(filter: LogFilter): void {
    this.#filter = filter;
    for (const [module, logger] of this.#loggers) logger.level = pinoLevel(filter, module);
  }

  /**
   * Writes the lines of all loggers of this thread, existing and later ones, to a second destination as well.
   *
   * @param uncopied a module whose lines that destination does not get: those about the destination itself.
   */
  copyTo(destination: LogDestination, uncopied: string): void {
    [this.#copies, this.#uncopied] = [destination, uncopied];
  }

  #write(module: string, line: string): void {
    const escaped = withoutControls(line);
    this.#options.destination.write(escaped);
    if (this.#copies !== undefined && module !== this.#uncopied) this.#copies.write(escaped);
  }

  /**
   * Whether a line passes. Most filters need only the logger's level; this is for those that read fields or messages.
   */
  #passes(module: string, [first, second]: readonly unknown[], level: number): boolean {
    const filter = this.#filter;
    if (filter.requests === undefined && filter.pattern === undefined) return true;
    const [fields, message] = typeof first === "string" ? [undefined, first] : [first, second];
    // Pino's level labels are the level names of log filters.
    return passes(filter, module, pino.levels.labels[level] as LogLevel, String(message), fields);
  }
}

/** DEL and C1 control characters (ECMA-48): JSON does not escape them, and terminals obey them. */
const controls = /[\u007f-\u009f]/g;

/** Escapes the control characters in the strings of a JSON line. */
export function withoutControls(line: string): string {
  return line.replace(controls, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function pinoLevel(filter: LogFilter, module: string): string {
  const level = mostDetailedLevelOf(filter, module);
  return level === "off" ? "silent" : level;
}
