/**
 * Prints the slowest files of test runs, the failures, the skipped checks with their reasons, and the totals, from
 * vitest's JSON reports. The last line is only the totals, `N passed, N failed, N skipped`, for programs that read the
 * end of a log. The exit status is 1 if a test failed or a report is missing.
 *
 * usage: node scripts/test-totals.ts REPORT...
 *   NOT_RUN names a file with a line for each check that was left out (not-run.ts).
 */
import { existsSync, readFileSync } from "node:fs";
import { relative } from "node:path";
import { notRunChecks } from "./not-run.ts";

/** The used part of vitest's JSON report. */
export interface TestReport {
  readonly success: boolean;
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly testResults: readonly FileReport[];
  /** The errors of hooks, and those outside of every test (test/support/run-report.ts). */
  readonly otherErrors: readonly string[];
}

interface FileReport {
  /** The file's absolute path. */
  readonly name: string;
  readonly status: string;
  /** Milliseconds since 1970. */
  readonly startTime: number;
  readonly endTime: number;
  /** The error if the file could not be loaded, or empty. */
  readonly message: string;
  readonly assertionResults: readonly {
    readonly fullName: string;
    readonly status: string;
    /** The errors of every attempt, also those of a test that passed in the end. */
    readonly failureMessages: readonly string[];
    /** Marks of test/support/describe-with.ts. */
    readonly meta?: { readonly missingPrograms?: readonly string[] };
  }[];
}

/** The result of a run. */
export interface Totals {
  readonly line: string;
  readonly failed: boolean;
  /** Every failure with its reason, and every test that passed only in a second attempt. */
  readonly findings: readonly string[];
  /**
   * The tests that were skipped, with the reason: a line for each, or for all of a file that lack the same programs.
   */
  readonly notRun: readonly string[];
}

/**
 * Returns the totals of all reports together. A file that could not be loaded counts as one failure, and so does each
 * error of a hook or outside of every test.
 */
export function totalsOf(...reports: readonly TestReport[]): Totals {
  const sum = (count: (report: TestReport) => number) => reports.reduce((total, report) => total + count(report), 0);
  const failed = sum(
    (report) => report.numFailedTests + report.testResults.filter(isUnloaded).length + report.otherErrors.length,
  );
  const skipped = sum((report) => report.numPendingTests + report.numTodoTests);
  const ending = skipped === 0 ? "" : `, ${skipped} skipped`;
  return {
    line: `${sum((report) => report.numPassedTests)} passed, ${failed} failed${ending}`,
    failed: failed > 0 || !reports.every((report) => report.success),
    findings: reports.flatMap(({ testResults, otherErrors }) => [
      ...testResults.flatMap(findingsOf),
      ...otherErrors.map((error) => `!! error: ${indented(error).trimStart()}`),
    ]),
    notRun: reports.flatMap((report) => report.testResults.flatMap(notRunIn)),
  };
}

function isUnloaded({ status, assertionResults }: FileReport): boolean {
  return status === "failed" && assertionResults.length === 0;
}

function findingsOf(file: FileReport): readonly string[] {
  const path = relative(process.cwd(), file.name);
  if (isUnloaded(file)) return [`!! not loaded: ${path}\n${indented(file.message)}`];
  return file.assertionResults
    .filter((test) => test.status === "failed" || test.failureMessages.length > 0)
    .map((test) => {
      const verdict = test.status === "failed" ? "!! failed" : "~~ passed only when tried again";
      return `${verdict}: ${path}: ${test.fullName.trim()}\n${indented(test.failureMessages.join("\n"))}`;
    });
}

/** Returns the slowest files, as `seconds path`, the slowest first. */
export function slowestFiles(reports: readonly TestReport[], limit = 20): readonly string[] {
  return reports
    .flatMap(({ testResults }) => testResults)
    .map(({ name, startTime, endTime }) => ({
      path: relative(process.cwd(), name),
      seconds: (endTime - startTime) / 1_000,
    }))
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, limit)
    .map(({ path, seconds }) => `${seconds.toFixed(1).padStart(6)} s  ${path}`);
}

const skippedStatuses = ["skipped", "pending", "todo", "disabled"];

function notRunIn(file: FileReport): readonly string[] {
  const path = relative(process.cwd(), file.name);
  const skipped = file.assertionResults.filter((test) => skippedStatuses.includes(test.status));
  const withoutPrograms = new Map<string, number>();
  const lines: string[] = [];
  for (const { fullName, status, meta } of skipped) {
    const programs = (meta?.missingPrograms ?? []).join(", ");
    // If a test skips itself for another reason, its name contains the reason.
    if (programs === "") lines.push(`${path}: ${fullName.trim()}${status === "todo" ? " (to be written)" : ""}`);
    else withoutPrograms.set(programs, (withoutPrograms.get(programs) ?? 0) + 1);
  }
  const counted = [...withoutPrograms].map(
    ([programs, count]) => `${path}: ${count === 1 ? "1 test" : `${count} tests`}, for want of ${programs}`,
  );
  return [...lines, ...counted];
}

/** Indents an error, without the stack frames of the test runner. */
function indented(text: string): string {
  const lines = text.split("\n").filter((line) => !/^\s+at .*(node_modules|<anonymous>)/.test(line));
  return lines.join("\n").replaceAll(/^(?=.)/gm, "   ");
}

if (import.meta.main) {
  const paths = process.argv.slice(2);
  const written = paths.filter((path) => existsSync(path));
  const isComplete = written.length === paths.length && paths.length > 0;
  // vitest has just written the reports.
  const reports = written.map((path) => JSON.parse(readFileSync(path, "utf8")) as TestReport);
  const totals = totalsOf(...reports);
  console.log(["== the slowest files of tests", ...slowestFiles(reports)].join("\n"));
  for (const finding of totals.findings) console.log(finding);
  const notRun = [...notRunChecks(), ...totals.notRun];
  console.log(notRun.length === 0 ? "== nothing was left out" : "== not run:");
  for (const line of notRun) console.log(`   ${line}`);
  if (!isComplete) console.error("some tests did not run: an earlier part of the check failed");
  console.log(totals.line);
  process.exitCode = totals.failed || !isComplete ? 1 : 0;
}
