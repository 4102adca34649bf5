/**
 * Prints the totals of test runs from vitest's JSON reports, `N passed, N failed, N skipped`, alone on a line for
 * whatever reads the end of a log. Exit status 1 when something failed or a report is missing.
 */
import { existsSync, readFileSync } from "node:fs";

/** What this script reads of vitest's JSON report. */
export interface TestReport {
  readonly success: boolean;
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly testResults: readonly { readonly status: string; readonly assertionResults: readonly unknown[] }[];
}

/** How a run ended. */
export interface Totals {
  readonly line: string;
  readonly failed: boolean;
}

/** The totals of all reports together. A file that could not even be loaded has no tests to count and counts as one failure. */
export function totalsOf(...reports: readonly TestReport[]): Totals {
  const sum = (count: (report: TestReport) => number) => reports.reduce((total, report) => total + count(report), 0);
  const failed = sum((report) => report.numFailedTests + unloadedFiles(report));
  const skipped = sum((report) => report.numPendingTests + report.numTodoTests);
  const ending = skipped === 0 ? "" : `, ${skipped} skipped`;
  return {
    line: `${sum((report) => report.numPassedTests)} passed, ${failed} failed${ending}`,
    failed: failed > 0 || !reports.every((report) => report.success),
  };
}

function unloadedFiles({ testResults }: TestReport): number {
  return testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0).length;
}

if (import.meta.main) {
  const paths = process.argv.slice(2);
  const written = paths.filter((path) => existsSync(path));
  const isComplete = written.length === paths.length && paths.length > 0;
  if (!isComplete) console.error("some tests did not run: an earlier part of the check failed");
  // The reports are vitest's own, written moments ago.
  const totals = totalsOf(...written.map((path) => JSON.parse(readFileSync(path, "utf8")) as TestReport));
  console.log(totals.line);
  process.exitCode = totals.failed || !isComplete ? 1 : 0;
}
