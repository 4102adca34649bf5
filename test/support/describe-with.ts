/**
 * Suites that need a further program. Where it is missing, the suite fails under CI=true, because a green run must mean
 * that everything ran. Elsewhere it is skipped, counted by vitest, and named at the end of the run by
 * `MissingProgramsReporter`.
 */
import { describe, test } from "vitest";
import { findProgram, requireProgram, type TestProgram } from "./programs.ts";

declare module "vitest" {
  interface TaskMeta {
    /** The missing programs that a skipped suite needs. */
    missingPrograms?: readonly string[];
  }
}

/**
 * Like `describe`, for a suite that needs `programs`; `body` receives the path of each binary. In a skipped suite the
 * paths are empty, so use them inside tests and hooks only.
 */
export function describeWith<Program extends TestProgram>(
  programs: readonly Program[],
  title: string,
  body: (paths: Readonly<Record<Program, string>>) => void,
): void {
  const missing = programs.filter((program) => findProgram(program) === undefined);
  if (missing.length > 0 && process.env["CI"] === "true") {
    describe(title, () => {
      test.each(missing)("has its program %s", (program) => {
        requireProgram(program);
      });
    });
    return;
  }
  const paths = Object.fromEntries(programs.map((program) => [program, findProgram(program) ?? ""]));
  describe(title, { skip: missing.length > 0, meta: { missingPrograms: missing } }, () => {
    // The entries come from `programs` itself, so every key is there.
    body(paths as Record<Program, string>);
  });
}
