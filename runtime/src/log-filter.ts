/**
 * What is logged, by module, in the syntax of `RUST_LOG`: `info`, or `info,proxy::ratelimit=debug`. One text sets it at
 * start, one changes it while the process runs, and the same text tells it.
 */
import type { Problem, Result } from "./problem.ts";

/** From the fewest lines to the most; `off` logs nothing. */
export const logLevels = ["off", "error", "warn", "info", "debug", "trace"] as const;
export type LogLevel = (typeof logLevels)[number];

/** A directive that is a level for everything. */
export const levelPattern = new RegExp(`^(?:${logLevels.join("|")})$`, "i");

export interface LogFilter {
  /** For modules that no directive names. */
  readonly level: LogLevel;
  /** By module; each covers the modules below it too. In the order given. */
  readonly modules: ReadonlyMap<string, LogLevel>;
}

const ACCEPTED = `accepted are a level (${logLevels.join(", ")}), MODULE=LEVEL and MODULE::PART, separated by commas`;
const MODULE = /^[A-Za-z_][\w-]*(?:::[A-Za-z_][\w-]*)*$/;

/**
 * Reads comma-separated directives: `LEVEL` for everything, `MODULE=LEVEL`, or `MODULE::PART` alone, which means
 * `trace`. Levels may be in any case. Of two directives for one thing the later counts. Without a bare level, `error`
 * is for the rest, as in RUST_LOG. A single word that is no level is refused, because it is far more often a misspelt
 * level than a module.
 */
export function parseLogFilter(text: string): Result<LogFilter> {
  let level: LogLevel = "error";
  const modules = new Map<string, LogLevel>();
  const problems: Problem[] = [];
  const directives = text.split(",").map((directive) => directive.trim());
  for (const directive of directives) {
    const [name = "", levelText, ...rest] = directive.split("=").map((part) => part.trim());
    const named = asLevel(levelText ?? name);
    if (levelText === undefined && named !== undefined) level = named;
    else if (levelText !== undefined && named !== undefined && rest.length === 0 && MODULE.test(name)) {
      modules.set(name, named);
    } else if (levelText === undefined && name.includes("::") && MODULE.test(name)) modules.set(name, "trace");
    else problems.push({ message: `"${directive}" is not a log directive; ${ACCEPTED}` });
  }
  return problems.length > 0 ? { ok: false, problems } : { ok: true, value: { level, modules } };
}

function asLevel(text: string): LogLevel | undefined {
  const lower = text.toLowerCase();
  return logLevels.find((level) => level === lower);
}

/** The directives in effect, in a form that `parseLogFilter` reads. */
export function renderLogFilter({ level, modules }: LogFilter): string {
  return [level, ...Array.from(modules, ([module, moduleLevel]) => `${module}=${moduleLevel}`)].join(",");
}

/** The level of a module: that of the longest directive which names it or a module above it. */
export function levelOf({ level, modules }: LogFilter, module: string): LogLevel {
  for (let name = module; name !== ""; name = parentOf(name)) {
    const found = modules.get(name);
    if (found !== undefined) return found;
  }
  return level;
}

function parentOf(module: string): string {
  return module.slice(0, Math.max(0, module.lastIndexOf("::")));
}
