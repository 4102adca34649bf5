/** Settings of test runs under continuous integration and on busy machines, the same in every vitest configuration. */
import { resolve } from "node:path";
import { RunReport } from "./run-report.ts";

/**
 * On a machine with other load, a test that waits for programs and sockets may fail. Under CI it is tried once more,
 * and `scripts/test-totals.ts` names it. The counterexample of a property fails again, so it is not retried.
 */
export const retry = process.env["CI"] === undefined ? 0 : { count: 1, condition: /^(?!Property failed)/ };

/** A poll ends as soon as its condition holds. The timeout is long enough that a slow machine does not reach it. */
export const expectOptions = { poll: { timeout: 10_000 } };

/** A reporter that writes the run to the file that an environment variable names; none if it is not set. */
export function jsonReport(variable: string): RunReport[] {
  const outputFile = process.env[variable];
  return outputFile === undefined ? [] : [new RunReport(resolve(outputFile))];
}
