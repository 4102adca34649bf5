/** How a command of ours begins and how it fails: what all commands that start a process have in common. */
import { type Problem, renderProblem } from "./problem.ts";
import { type Settings, type SettingSources, type SettingValues, readSettings } from "./settings.ts";
import { renderHelp } from "./settings-text.ts";

/** sysexits.h EX_USAGE: the command line is wrong. */
export const exitUsage = 64;
/** The command could not be carried out. */
export const exitFailure = 1;

/** Tells people, on standard error, what was attempted and what was wrong; the exit code is set, not taken. */
export function fail(attempt: string, problems: readonly Problem[], code: number): void {
  process.stderr.write(`${attempt}:\n${problems.map((problem) => `  ${renderProblem(problem)}\n`).join("")}`);
  process.exitCode = code;
}

/** As `fail`, for a setting that is wrong. */
export function failSettings(problems: readonly Problem[]): void {
  fail("cannot read the settings", problems, exitUsage);
}

/**
 * The settings; undefined where help or the version was asked for and printed, or where they are wrong, which has been
 * told then.
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
  const read = readSettings(settings, sources);
  switch (read.kind) {
    case "help":
      process.stdout.write(renderHelp(settings, { ...about, columns: helpColumns() }));
      return undefined;
    case "invalid":
      failSettings(read.problems);
      return undefined;
    case "values":
      return read.values;
  }
}

/** As wide as the terminal; elsewhere as wide as most are. */
export function helpColumns(): number {
  return process.stdout.isTTY ? process.stdout.columns : 80;
}
