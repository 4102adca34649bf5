/**
 * Prints the totals of a test run from vitest's JSON report, `N passed, N failed, N skipped`, alone on a line for
 * whatever reads the end of a log. Exit status 1 when something failed or there is no report.
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

/** The totals of a report. A file that could not even be loaded has no tests to count and counts as one failure. */
export function totalsOf(report: TestReport): Totals {
  const unloaded = report.testResults.filter((file) => file.status === "failed" && file.assertionResults.length === 0);
  const failed = report.numFailedTests + unloaded.length;
  const skipped = report.numPendingTests + report.numTodoTests;
  const ending = skipped === 0 ? "" : `, ${skipped} skipped`;
  return { line: `${report.numPassedTests} passed, ${failed} failed${ending}`, failed: failed > 0 || !report.success };
}

if (import.meta.main) {
  const path = process.argv[2] ?? "";
  const wasRun = existsSync(path);
  if (!wasRun) console.error("the tests did not run: an earlier part of the check failed");
  const totals = wasRun
    ? // The report is vitest's own, written moments ago.
      totalsOf(JSON.parse(readFileSync(path, "utf8")) as TestReport)
    : { line: "0 passed, 0 failed", failed: true };
  console.log(totals.line);
  process.exitCode = totals.failed ? 1 : 0;
}
