/** Reads the command line and reports errors, for all commands that start a process. */
import { type Problem, renderProblem } from "../text/problem.ts";
import { hasHelpFlag, readSettings, type Settings, type SettingSources, type SettingValues } from "./settings.ts";
import { renderHelp } from "./settings-text.ts";

/** Exit code of a wrong command line (sysexits.h, EX_USAGE). */
export const exitUsage = 64;
/** Exit code of a command that failed. */
export const exitFailure = 1;

/** Writes the attempt and its problems to standard error, and sets `process.exitCode`. Does not exit. */
export function fail(attempt: string, problems: readonly Problem[], code: number): void {
  process.stderr.write(`${attempt}:\n${problems.map((problem) => `  ${renderProblem(problem)}\n`).join("")}`);
  process.exitCode = code;
}

/** As `fail`, for invalid settings. */
export function failSettings(problems: readonly Problem[]): void {
  fail("cannot read the settings", problems, exitUsage);
}

/**
 * Reads the settings. Returns undefined when it has printed help or the version, or has reported invalid settings on
 * standard error.
 */
export function readCommandLine<const S extends Settings>(
  settings: S,
  about: { readonly usage: string; readonly summary: string; readonly version: string },
  sources: SettingSources,
): SettingValues<S> | undefined {
  if (sources.argv.includes("--version")) {
    process.stdout.write(`${about.version}\n`);
    return undefined;
  }
  if (hasHelpFlag(sources.argv)) {
    process.stdout.write(renderHelp(settings, { ...about, columns: helpColumns() }));
    return undefined;
  }
  const read = readSettings(settings, sources);
  if (read.ok) return read.value;
  failSettings(read.problems);
  return undefined;
}

/** Returns the width of the terminal in columns, or the usual width where there is no terminal. */
export function helpColumns(): number {
  return process.stdout.isTTY ? process.stdout.columns : 80;
}
