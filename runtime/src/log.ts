/**
 * Logging: one JSON object per line on standard output, a logger per module, levels that change while the process runs.
 * Log an event as a constant phrase with fields (`log.info({ route }, "route accepted")`); an `err` field is written
 * with its stack. Each thread has its own `Logs` and its own destinations.
 */
import { pino } from "pino";
import type { Clock } from "./clock.ts";
import { levelOf, type LogFilter } from "./log-filter.ts";

/** What a module sees of logging. */
export type Logger = Pick<pino.Logger, "error" | "warn" | "info" | "debug" | "trace" | "isLevelEnabled">;

/** Takes whole lines. */
export interface LogDestination {
  write(line: string): void;
  /** Writes out what is held back; at the end of a thread. */
  flushSync(): void;
}

/**
 * Linux writes up to this many bytes to a pipe in one piece (PIPE_BUF). Threads share standard output, and a batch cut
 * in two by another thread's lines would be two broken lines.
 */
const MAX_WRITE_BYTES = 4_096;
/** A log line is at most this late. */
const BATCH_MS = 100;
/** Beyond this much unwritten text (a reader of our output that stands still) lines are dropped, not memory. */
const MAX_PENDING_BYTES = 8 * 1024 * 1024;

/**
 * Opens standard output. `line` writes each line at once, for events that must not be lost; `batch` gathers lines of
 * frequent kinds and writes them in the background.
 */
export function openStdout(mode: "line" | "batch"): LogDestination {
  if (mode === "line") return pino.destination({ dest: 1, sync: true });
  return pino.destination({
    dest: 1,
    sync: false,
    minLength: MAX_WRITE_BYTES - 1,
    maxWrite: MAX_WRITE_BYTES,
    maxLength: MAX_PENDING_BYTES,
    periodicFlush: BATCH_MS,
  });
}

export interface LogsOptions {
  readonly filter: LogFilter;
  readonly clock: Clock;
  readonly destination: LogDestination;
  /** Fields of every line, such as the number of the worker. */
  readonly bindings?: Readonly<Record<string, string | number>>;
}

/** The loggers of one thread. */
export class Logs {
  readonly #options: LogsOptions;
  readonly #loggers: { readonly module: string; readonly logger: pino.Logger }[] = [];
  #filter: LogFilter;

  constructor(options: LogsOptions) {
    this.#options = options;
    this.#filter = options.filter;
  }

  /**
   * A logger for a module, named as in filters: `proxy::ratelimit`. Make it once and keep it. `destination` is for a
   * kind of lines that is written its own way.
   */
  logger(module: string, destination: LogDestination = this.#options.destination): Logger {
    const { clock, bindings } = this.#options;
    const logger = pino(
      {
        base: { ...bindings, module },
        level: pinoLevel(this.#filter, module),
        timestamp: () => `,"time":"${new Date(clock.nowMs()).toISOString()}"`,
        formatters: { level: (label) => ({ level: label }) },
      },
      destination,
    );
    this.#loggers.push({ module, logger });
    return logger;
  }

  get filter(): LogFilter {
    return this.#filter;
  }

  /** Applies to every logger of this thread, made already or later. */
  setFilter(filter: LogFilter): void {
    this.#filter = filter;
    for (const { module, logger } of this.#loggers) logger.level = pinoLevel(filter, module);
  }
}

function pinoLevel(filter: LogFilter, module: string): string {
  const level = levelOf(filter, module);
  return level === "off" ? "silent" : level;
}
